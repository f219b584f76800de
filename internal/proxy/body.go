package proxy

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/balance"
)

// Why a body ends before its end.
var (
	errTooLarge = errors.New("the body is too large")
	errStopped  = errors.New("the rest of the body is not wanted")
)

// firstKept is for how many bytes of a small body there is room at first.
const firstKept = 2 << 10

// longAgo is a deadline that ends what reads.
var longAgo = time.Unix(1, 0)

// deadliner is what writers are beside.
type deadliner interface{ SetReadDeadline(time.Time) error }

// clientBody is a request's body as it is read: by the handler, or by the goroutine that sends it while
// the handler waits for the response.
type clientBody struct {
	src  io.Reader
	conn deadliner
	// touched says whether somebody has begun to read, ended whether it was read to its end.
	touched, ended atomic.Bool
	// came is when reading gave something last, in nanoseconds since 1970; 0 while more is waited for.
	came atomic.Int64
	// status is that of the answer where reading failed, 0 where it did not.
	status atomic.Int32
	// trim is called at its end, when its trailer is there.
	trim func()
	// left is how many bytes may come, negative for any number.
	left int64

	// keeps says whether what was read is all in kept, so that it can be sent again.
	keeps bool
	kept  []byte

	// rate is in bytes a second, 0 for any. patience is for how long none need come: it grows with what
	// comes, up to window, and shrinks while nothing does.
	rate             int
	window, patience time.Duration

	// mu is held while the deadline is set, which is armed.
	mu      sync.Mutex
	armed   time.Time
	stopped bool
	unbound bool
}

// readBody gets the request's body ready to be sent: one that is small is read.
func (x *exchange) readBody() (status int) {
	r, o := x.r, &x.p.options
	x.upgrade = asksFor(r)
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return 0
	}
	x.hasBody = true
	x.expects = hasElement(r.Header["Expect"], "100-continue")
	x.small = !x.expects && 0 < r.ContentLength && r.ContentLength <= balance.MaxBody
	x.body.begin(x.w, r, o)
	x.body.trim = x.trim
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") && x.backend.speaks() == protocolH2C {
		// A stream of messages has no rate, where the endpoint may take it as one.
		x.body.rate = 0
	}
	if o.MaxBody > 0 && r.ContentLength > o.MaxBody {
		return http.StatusRequestEntityTooLarge
	}
	if !x.small {
		return 0
	}
	if !x.readSmall(int(r.ContentLength)) {
		x.small = false
		return cmp.Or(int(x.body.status.Load()), http.StatusBadRequest)
	}
	x.body.ended.Store(true)
	return 0
}

// readSmall reads a body of that length into kept, which grows with what comes: whoever opens a stream says how long its
// body is to be, and may send nothing of it.
func (x *exchange) readSmall(length int) (whole bool) {
	for x.kept = x.kept[:0]; len(x.kept) < length; {
		n := len(x.kept)
		if n == cap(x.kept) {
			x.kept = slices.Grow(x.kept, min(max(n, firstKept), length-n))
		}
		more, err := x.body.Read(x.kept[n:min(cap(x.kept), length)])
		if x.kept = x.kept[:n+more]; err != nil && n+more < length {
			return false
		}
	}
	return true
}

func (b *clientBody) begin(w http.ResponseWriter, r *http.Request, o *Options) {
	b.src = r.Body
	b.conn, _ = w.(deadliner)
	b.left = -1
	if o.MaxBody > 0 {
		b.left = o.MaxBody
	}
	b.keeps = r.ContentLength <= balance.MaxBody && r.Trailer == nil && balance.Repeatable(r.Method)
	b.rate, b.window, b.patience = o.BodyRate, o.BodyWindow, o.BodyWindow
}

// Read reads what there is, and fails if less comes than is to, or more than may.
func (b *clientBody) Read(p []byte) (int, error) {
	b.touched.Store(true)
	begun := time.Now()
	if !b.arm(begun) {
		return 0, errStopped
	}
	b.came.Store(0)
	n, err := b.src.Read(p)
	b.came.Store(time.Now().UnixNano())
	if b.rate > 0 {
		earned := time.Duration(n) * time.Second / time.Duration(b.rate)
		b.patience = min(b.window, b.patience-time.Since(begun)+earned)
	}
	if b.left >= 0 && int64(n) > b.left {
		n, err = int(b.left), errTooLarge
	}
	if b.left > 0 {
		b.left -= int64(n)
	}
	if b.keeps = b.keeps && len(b.kept)+n <= balance.MaxBody; b.keeps {
		b.kept = append(b.kept, p[:n]...)
	}
	switch {
	case err == io.EOF:
		b.trim()
		b.ended.Store(true)
	case err != nil:
		b.fail(err)
	}
	return n, err
}

// fail notes why reading failed, unless that is of our own making. Who is late may have been stopped for
// it: the request's context may have ended.
func (b *clientBody) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	late := !b.armed.IsZero() && !b.unbound && !time.Now().Before(b.armed)
	if late || !b.stopped {
		b.status.Store(int32(statusOfBody(err)))
	}
}

// arm sets until when the next bytes are to come, unless that is about what is set. It is false if no
// more is wanted.
func (b *clientBody) arm(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	if b.rate == 0 || b.unbound || b.conn == nil {
		return true
	}
	by := now.Add(b.patience)
	if off := by.Sub(b.armed); off > b.window/30 || off < -b.window/30 {
		b.armed = by
		b.conn.SetReadDeadline(by)
	}
	return true
}

// unbind lets the body be as slow as it likes, because the response has begun: who reads that may have
// nothing to say for a while.
func (b *clientBody) unbind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unbound = true; !b.stopped && !b.armed.IsZero() && b.conn != nil {
		b.conn.SetReadDeadline(time.Time{})
	}
}

// stop ends whoever reads, and whoever would. The deadline is not touched any more.
func (b *clientBody) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped = true; b.conn != nil && !b.ended.Load() {
		b.conn.SetReadDeadline(longAgo)
	}
}

// statusOfBody is what a client is told whose body could not be read.
func statusOfBody(err error) int {
	var network *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return statusGone
	}
	return http.StatusBadRequest
}

// isWhole reports whether the body is there from its first byte. Of one that was read to its end while it was
// sent, nobody reads any more; it is sent as one that is small.
func (x *exchange) isWhole() bool {
	if !x.hasBody || x.small || !x.body.touched.Load() {
		return true
	}
	if x.shared || !x.body.ended.Load() || !x.body.keeps || len(x.r.Trailer) > 0 {
		return false
	}
	x.small, x.kept = true, x.body.kept
	x.writeHead()
	return true
}
