package downstream

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// maxRest bounds the rest of a body that is read for the sake of the next request.
const maxRest = 64 << 10

// body is that of a request. It may be read by another goroutine than the handler's, and by one that goes on when the
// handler has returned.
type body struct {
	c *conn

	mu sync.Mutex
	message.Body
	// r gets the trailer.
	r *http.Request

	// over says whether nobody is to read any more, touched whether somebody has begun to, whole whether it was read to
	// its end. Who writes the answer does not wait for who reads.
	over, touched, whole atomic.Bool
}

// begin expects the body of r, if its head says that there is one.
func (b *body) begin(r *http.Request) {
	h := &b.c.head
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r = r
	b.over.Store(false)
	b.touched.Store(false)
	b.whole.Store(h.framing == message.None)
	b.Begin(&b.c.in, h.framing, h.length)
}

// Read tells a client that waits for it to go on.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if !b.touched.Swap(true) {
		b.c.answer.goOn()
	}
	n, err := b.Body.Read(p)
	switch {
	case err == io.EOF:
		b.end()
	case isBroken(err):
		b.c.presence.end()
	}
	return n, err
}

// isBroken reports whether it is the connection that does not go on.
func isBroken(err error) bool {
	_, malformed := errors.AsType[message.Malformed](err)
	return err != nil && !malformed && !errors.Is(err, os.ErrDeadlineExceeded)
}

// end gives the request its trailer, once.
func (b *body) end() {
	if b.r == nil {
		return
	}
	for _, f := range b.Trailer() {
		if b.r.Trailer == nil {
			b.r.Trailer = http.Header{}
		}
		b.r.Trailer[f.Name] = append(b.r.Trailer[f.Name], f.Value)
	}
	b.r = nil
	b.whole.Store(true)
	b.c.presence.bodyEnded()
}

// Close is that of io.Closer. The server knows by itself what was not read.
func (b *body) Close() error { return nil }

// isSkipped reports whether nobody has begun to read it, and all of it can be read for the sake of the next request.
func (b *body) isSkipped() bool {
	h := &b.c.head
	return !b.touched.Load() && !h.expects && h.framing == message.Sized && h.length <= maxRest
}

// leave has nobody read any more, and ends who does.
func (b *body) leave() {
	b.over.Store(true)
	if !b.mu.TryLock() {
		b.c.nc.SetReadDeadline(longAgo)
		b.mu.Lock()
	}
	b.mu.Unlock()
}

// skipRest reads what the handler did not want, or has the connection end.
func (c *conn) skipRest() {
	if c.s.Rest > 0 {
		c.nc.SetReadDeadline(time.Now().Add(c.s.Rest))
	}
	if _, err := io.Copy(io.Discard, &c.body.Body); err != nil {
		c.last = true
	}
}
