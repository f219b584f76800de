package upstream

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// pieceSize is how much of a body is read and written at once. A piece has room for the chunk's size
// before its data, and for a line end after it.
const (
	pieceSize = 32 << 10
	// firstSize is that of a piece until one is filled: of a body that does not come there is to be little to keep, because
	// whoever opens a stream says how long its body is to be.
	firstSize = 2 << 10
	sizeRoom  = 16 + 2
	endRoom   = 2
)

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// upload sends a body while the response is awaited, in a goroutine of its own.
type upload struct {
	c       *conn
	stream  io.Reader
	left    int64 // -1 where it is unknown
	trailer func() http.Header
	stop    func()
	// piece is what is read into, large where it is from pieces.
	piece []byte
	large *[pieceSize]byte

	// waits says whether it has not begun, since 100 (Continue) may come until then.
	waits         bool
	continueUntil time.Time

	// ending says whether its last piece is being written, so that the endpoint may have had it all.
	ending atomic.Bool
	// done is closed at its end. Then err is what became of it, and ended when that was.
	done  chan struct{}
	err   error
	ended time.Time
}

// errStream is that the caller's stream broke, not the connection.
type errStream struct{ error }

func (e errStream) Unwrap() error { return e.error }

func newUpload(c *conn, q *Request) *upload {
	u := &upload{c: c, stream: q.Stream, left: q.Head.length, trailer: q.Trailer, stop: q.Stop, done: make(chan struct{})}
	if q.Expect {
		u.waits, u.continueUntil = true, time.Now().Add(c.pool.pools.options.Continue)
		return u
	}
	u.start()
	return u
}

func (u *upload) start() {
	u.waits = false
	go u.run()
}

// run sends all of it. An endpoint that takes no more may have answered: then the connection is left
// open to be read from. Otherwise the response is not waited for.
func (u *upload) run() {
	u.piece = make([]byte, firstSize)
	err := u.send()
	if u.large != nil {
		pieces.Put(u.large)
	}
	u.err, u.ended = err, time.Now()
	close(u.done)
	if breaks(err) {
		u.c.close()
	}
}

// breaks reports whether a request that ended so gets no response any more.
func breaks(err error) bool { return errors.As(err, &errStream{}) || isLate(err) }

func (u *upload) send() error {
	if u.left >= 0 {
		return u.sendSized()
	}
	for {
		room := u.piece[sizeRoom : len(u.piece)-endRoom]
		n, err := u.stream.Read(room)
		if n > 0 {
			if _, err := u.c.write(frame(u.piece, n), nil); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return u.sendEnd()
		}
		if err != nil {
			return errStream{err}
		}
		u.grow(n == len(room))
	}
}

// grow takes a large piece where one was filled.
func (u *upload) grow(filled bool) {
	if filled && u.large == nil {
		u.large = pieces.Get().(*[pieceSize]byte)
		u.piece = u.large[:]
	}
}

// sendEnd sends the last chunk and the trailer.
func (u *upload) sendEnd() error {
	var trailer http.Header
	if u.trailer != nil {
		trailer = u.trailer()
	}
	end, err := appendTrailer(append(u.piece[:0], "0\r\n"...), trailer)
	if err != nil {
		return errStream{err}
	}
	u.ending.Store(true)
	_, err = u.c.write(end, nil)
	return err
}

func (u *upload) sendSized() error {
	for u.left > 0 {
		n, err := u.stream.Read(u.piece[:min(int64(len(u.piece)), u.left)])
		u.left -= int64(n)
		if u.left == 0 {
			u.ending.Store(true)
		}
		if n > 0 {
			if _, err := u.c.write(u.piece[:n], nil); err != nil {
				return err
			}
		}
		if err != nil && u.left > 0 {
			return errStream{message.Unexpected(err)}
		}
		u.grow(n == len(u.piece))
	}
	return nil
}

// frame makes a chunk of the n bytes that stand in a piece after the room for their size.
func frame(piece []byte, n int) []byte {
	var digits [16]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	begin := sizeRoom - 2 - len(size)
	copy(piece[begin:], size)
	copy(piece[sizeRoom-2:], "\r\n")
	copy(piece[sizeRoom+n:], "\r\n")
	return piece[begin : sizeRoom+n+endRoom]
}

// appendTrailer appends fields and the empty line. Those that have no place in a trailer are left out.
func appendTrailer(b []byte, trailer http.Header) ([]byte, error) {
	for name, values := range trailer {
		if message.IsFraming(http.CanonicalHeaderKey(name)) || isReserved(name) {
			continue
		}
		for _, value := range values {
			if !message.IsToken(name) || !message.IsText(value) {
				return nil, errors.New("the trailer cannot be sent")
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	return append(b, "\r\n"...), nil
}

// wake is when a read is to look whether the upload goes on, and false when it is over. It begins an
// upload that has waited long enough.
func (u *upload) wake(now time.Time) (time.Time, bool) {
	if u.waits {
		if now.Before(u.continueUntil) {
			return u.continueUntil, true
		}
		u.start()
	}
	select {
	case <-u.done:
		return time.Time{}, false
	default:
		return now.Add(look), true
	}
}

// finish ends the upload and reports whether the endpoint has had all of it. Where the response is complete
// and the last piece was being written, that may be its end which was not noticed: it gets a moment.
func (u *upload) finish(complete bool) bool {
	if u.waits {
		return false
	}
	if complete && u.ending.Load() {
		moment := time.NewTimer(time.Second)
		defer moment.Stop()
		select {
		case <-u.done:
			return u.err == nil
		case <-moment.C:
		}
	}
	select {
	case <-u.done:
		return u.err == nil
	default:
	}
	u.c.close()
	if u.stop != nil {
		u.stop()
	}
	<-u.done
	return false
}
