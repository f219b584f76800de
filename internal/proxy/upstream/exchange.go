package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// MaxInformational bounds the 1xx responses before a final one.
const MaxInformational = 32

// Response is what Do reads. It may be used again after Close, and keeps its memory.
type Response struct {
	// Status is that of a final response, or 101 (Switching Protocols) where the request asked for that.
	Status int
	// Header are its fields in their order, without Content-Length and Transfer-Encoding. They hold on to
	// the head's text, a single string.
	Header []message.Field
	// Length is that of the body, -1 where it is unknown. For HEAD and 304 (Not Modified) it is what
	// Content-Length says, if anything.
	Length int64

	c *conn
}

// Do sends a request and reads the response up to its body, past informational ones. It waits no longer
// than the options and the request's deadline say, and not much longer than until the context ends; if
// that ends later, reading the body fails. An error is an *Error, after which there is nothing to close.
//
// A connection that the endpoint has closed while it was idle is no error: another is used.
func (p *Pool) Do(ctx context.Context, q *Request, r *Response) error {
	if err := q.check(); err != nil {
		return &Error{Invalid, Sending, err}
	}
	for {
		c, reused, failed := p.take(ctx, q)
		if failed != nil {
			return failed
		}
		failed = c.exchange(ctx, q, r)
		if failed == nil {
			r.c = c
			return nil
		}
		c.end(false)
		if failed.Class != NotWritten || !reused {
			return failed
		}
	}
}

func (c *conn) exchange(ctx context.Context, q *Request, r *Response) *Error {
	c.ctx, c.deadline = ctx, q.Deadline
	n, err := c.write(q.Head.text(), q.Body)
	if err != nil && (n == 0 || isLate(err)) {
		return c.failed(err, NotWritten, Sending)
	}
	// An endpoint that takes only some of it may have said why.
	c.last = err != nil
	c.since, c.bound = time.Now(), c.pool.pools.options.Head
	if q.Stream != nil {
		c.upload = newUpload(c, q)
	}
	a, failed := c.awaitFinal(q, r)
	if failed != nil {
		return failed
	}
	if a.status == http.StatusSwitchingProtocols && (q.Head.upgrade == "" || !strings.EqualFold(a.upgrade, q.Head.upgrade)) {
		return &Error{Malformed, AwaitingHead, message.Malformed("it switches to a protocol that was not asked for")}
	}
	r.Status, r.Length = a.status, a.length
	if a.status == http.StatusNoContent {
		r.Length = 0
	}
	c.body.Begin(&c.in, a.framing(q.Head.method == http.MethodHead), a.length)
	c.last = c.last || a.close || c.body.Framing() == message.UntilClose || a.status == http.StatusSwitchingProtocols
	c.bound = c.pool.pools.options.Progress
	return nil
}

// awaitFinal reads heads until one is final.
func (c *conn) awaitFinal(q *Request, r *Response) (a answer, failed *Error) {
	class := NoResponse
	for range MaxInformational {
		text, err := c.in.Head(c.pool.pools.options.HeadBytes, beginsLikeResponse)
		if err != nil && len(c.in.Buffered()) > 0 {
			class = BodyBroken
		}
		if err != nil {
			return a, c.failed(err, class, AwaitingHead)
		}
		class = BodyBroken
		a, r.Header, err = parseHead(string(text), r.Header[:0])
		if err != nil {
			return a, c.failed(err, Malformed, AwaitingHead)
		}
		if a.status >= 200 || a.status == http.StatusSwitchingProtocols {
			return a, nil
		}
		c.inform(q, a.status, r.Header)
	}
	return a, &Error{Malformed, AwaitingHead, message.Malformed("it has too many informational responses")}
}

// inform passes an informational response on. 100 (Continue) is for an upload that waits for it.
func (c *conn) inform(q *Request, status int, fields []message.Field) {
	awaited := c.upload != nil && c.upload.waits
	if status == http.StatusContinue && !awaited {
		return
	}
	if q.Informational != nil {
		q.Informational(status, fields)
	}
	if status == http.StatusContinue {
		c.upload.start()
	}
}

// failed names what went wrong: class, if nothing says more.
func (c *conn) failed(err error, class Class, during Phase) *Error {
	var wrong message.Malformed
	switch {
	case errors.As(err, &wrong):
		class = Malformed
	case c.uploadBroke():
		err, during = c.upload.err, Sending
		if class = RequestBroken; !errors.As(err, &errStream{}) {
			class = TimedOut
		}
	case c.ctx.Err() != nil:
		class, err = Canceled, context.Cause(c.ctx)
	case isLate(err):
		class = TimedOut
	}
	return &Error{class, during, err}
}

// uploadBroke reports whether the upload ended for a reason of its own, and with it the connection.
func (c *conn) uploadBroke() bool {
	if c.upload == nil || c.upload.waits {
		return false
	}
	select {
	case <-c.upload.done:
		return breaks(c.upload.err)
	default:
		return false
	}
}

// Read reads the body, and gives io.EOF at its end, with the last bytes or after them. It gives what there
// is rather than wait for more. Other errors are an *Error.
func (r *Response) Read(p []byte) (int, error) {
	c := r.c
	if c == nil {
		return 0, net.ErrClosed
	}
	// What the caller takes its time for is not held against the endpoint.
	c.since = time.Now()
	n, err := c.body.Read(p)
	if err != nil && err != io.EOF {
		err = c.failed(err, BodyBroken, ReadingBody)
	}
	return n, err
}

// Ready reports whether Read gives something, or the end, without a wait. Until it does not, nothing need be
// flushed.
func (r *Response) Ready() bool { return r.c != nil && r.c.body.Ready() }

// Trailer are the fields after the body, once Read has given io.EOF, until Close.
func (r *Response) Trailer() []message.Field {
	if r.c == nil {
		return nil
	}
	return r.c.body.Trailer()
}

// Close ends the exchange. The connection goes back to its pool if request and response were complete,
// nothing was left over and neither side ends it; otherwise it is closed. Closing twice does nothing.
func (r *Response) Close() {
	if c := r.c; c != nil {
		r.c = nil
		c.end(c.body.Complete() && !c.last && len(c.in.Buffered()) == 0)
	}
}

// TakeOver is the connection after 101 (Switching Protocols), which is the caller's to close, and what
// was read from it already. The response is closed with that. The context has no power over it.
func (r *Response) TakeOver() (conn net.Conn, early []byte) {
	c := r.c
	r.c = nil
	early = append(early, c.in.Buffered()...)
	c.in.Release()
	if c.unwatch != nil {
		c.unwatch()
	}
	c.tcp.SetDeadline(time.Time{})
	c.leave()
	return c.tcp, early
}

// end makes an end of the exchange, and keeps the connection if it is complete.
func (c *conn) end(complete bool) {
	if c.upload != nil {
		complete = c.upload.finish(complete) && complete
		c.upload = nil
		c.writeBy = time.Time{}
	}
	if c.unwatch != nil {
		complete = c.unwatch() && complete
		c.unwatch = nil
	}
	c.ctx = nil
	c.in.Release()
	c.body.End()
	if complete {
		c.pool.put(c, time.Now())
	} else {
		c.close()
	}
}
