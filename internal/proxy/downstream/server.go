package downstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// ErrHTTP2 is that a client without TLS speaks HTTP/2.
var ErrHTTP2 = errors.New("it is HTTP/2")

// outSize is how many bytes of an answer are kept until they are written at once.
const outSize = 4 << 10

var outs = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, outSize) }}

// longAgo is a deadline that ends what reads.
var longAgo = time.Unix(1, 0)

// Server is what all connections have in common. A time of 0 is any.
type Server struct {
	// Handler answers requests. Their URL is nil: RequestURI is what came. A handler may read the body while it answers,
	// and is not to use request or writer once it has returned. Writers are http.Flusher and http.Hijacker, and have
	// SetReadDeadline.
	Handler http.Handler

	// Head bounds the time from a head's first byte to its last, or from a connection's beginning to the first head's end:
	// 408 after that, if anything has come. HeadBytes bounds its bytes: 431 beyond.
	Head      time.Duration
	HeadBytes int
	// Idle is for how long a connection may wait for its next request.
	Idle time.Duration
	// Rest bounds the time in which the rest of a small body is read that the handler did not want.
	Rest time.Duration

	// Begun is told of a connection on which some of a head has come.
	Begun func(net.Conn)
	// ConnState is told of connections, as that of http.Server: StateActive when a request's head has come or is refused,
	// StateIdle after the answer's last byte, and StateHijacked.
	ConnState func(net.Conn, http.ConnState)
	// Refused is told by which status a head was refused.
	Refused func(status int)
	// ErrorLog gets panics of the handler.
	ErrorLog *log.Logger
}

// conn is a connection, with the request that it is used for.
type conn struct {
	s  *Server
	nc net.Conn
	// state is that of TLS, nil without.
	state    *tls.ConnectionState
	presence *presence

	in  message.Reader
	out *bufio.Writer
	// waiting waits for a request.
	waiting
	// armed is the deadline for reading, longAgo where that may be another.
	armed time.Time
	// headBy is until when the head is to have come, zero where that has all time until more is waited for.
	headBy time.Time
	// reads is what the next bytes belong to.
	reads part

	head head
	// request has the head of one without a body, and is used again: then it is as blank is.
	request, blank *http.Request
	// values are those of its header.
	values []string
	body   body
	answer answer
	// last says whether no other request can follow, hijacked whether the connection is somebody else's.
	last, hijacked bool
}

// part is one of a connection.
type part uint8

const (
	heads part = iota
	rest
)

// Serve serves a connection until its end, and closes it. Contexts of requests have the values of ctx, and end with it.
// state is that of a connection with TLS.
//
// Where the client speaks HTTP/2 it returns ErrHTTP2 and what has come; the connection is the caller's then, and so it is
// where a handler has taken it over.
func (s *Server) Serve(ctx context.Context, nc net.Conn, state *tls.ConnectionState) (early []byte, err error) {
	c := &conn{s: s, nc: nc, state: state, armed: longAgo}
	c.in.Src = source{c}
	c.waiting.begin(c)
	c.presence = newPresence(ctx, c)
	c.blank = new(http.Request).WithContext(c.presence)
	c.request = c.blank.WithContext(c.presence)
	c.answer.c, c.body.c = c, c
	defer context.AfterFunc(ctx, c.presence.end)()
	defer c.close()
	return c.serve()
}

// close ends the connection, unless it is somebody else's.
func (c *conn) close() {
	if failed := recover(); failed != nil && failed != http.ErrAbortHandler {
		c.s.ErrorLog.Printf("panic while %v was served: %v\n%s", c.nc.RemoteAddr(), failed, debug.Stack())
	}
	c.presence.unwatch()
	c.body.leave()
	if c.out != nil && !c.hijacked {
		// What a handler wrote before it broke off the client may have.
		c.out.Flush()
	}
	c.releaseOut()
	c.in.Release()
	if !c.hijacked {
		c.nc.Close()
		c.s.ConnState(c.nc, http.StateClosed)
	}
}

func (c *conn) serve() (early []byte, err error) {
	if c.s.Head > 0 {
		c.headBy = time.Now().Add(c.s.Head)
	}
	for {
		if err := c.await(); err != nil {
			return nil, err
		}
		c.s.Begun(c.nc)
		refused := c.readHead()
		c.s.ConnState(c.nc, http.StateActive)
		switch refused {
		case nil:
		case errPreface:
			if c.state != nil {
				c.refuse(refusal{http.StatusHTTPVersionNotSupported, "HTTP/2 was not agreed upon"})
				return nil, refused
			}
			c.hijacked = true
			c.nc.SetReadDeadline(time.Time{})
			return bytes.Clone(c.in.Buffered()), ErrHTTP2
		default:
			c.refuse(refused)
			return nil, refused
		}
		if c.handle(); c.last || c.hijacked {
			return nil, nil
		}
		c.s.ConnState(c.nc, http.StateIdle)
	}
}

// source is what is read from: the connection, with the deadline of a head.
type source struct{ c *conn }

func (s source) Read(p []byte) (int, error) {
	if c := s.c; c.reads == heads {
		if c.headBy.IsZero() && c.s.Head > 0 {
			c.headBy = time.Now().Add(c.s.Head)
		}
		c.arm(c.headBy, 0)
	}
	return s.c.nc.Read(p)
}

// arm sets the deadline for reading, unless that is off by less than slack.
func (c *conn) arm(by time.Time, slack time.Duration) {
	if off := by.Sub(c.armed); off > slack || off < -slack || by.IsZero() != c.armed.IsZero() {
		c.armed = by
		c.nc.SetReadDeadline(by)
	}
}

// handle has the request answered.
func (c *conn) handle() {
	c.reads = rest
	c.presence.begin(c.head.framing == message.None)
	r := c.requestOf()
	c.out = outs.Get().(*bufio.Writer)
	c.out.Reset(c.nc)
	c.answer.begin(r)
	c.s.Handler.ServeHTTP(&c.answer, r)
	if c.presence.unwatch() {
		c.armed = longAgo
	}
	if c.hijacked {
		return
	}
	c.answer.finish()
	c.releaseOut()
	if c.body.leave(); !c.last && !c.body.Complete() {
		c.skipRest()
	}
	if len(c.in.Buffered()) == 0 {
		c.in.Release()
	}
	c.forget()
}

// keptFields is for how many fields a connection that waits keeps room.
const keptFields = 64

// forget lets go of the request's text and the answer's: a connection may wait for long.
func (c *conn) forget() {
	h, fields := c.request.Header, c.head.fields
	clear(h)
	clear(fields)
	clear(c.values)
	if len(fields) > keptFields {
		h, fields, c.values = nil, nil, nil
	}
	c.head = head{fields: fields[:0]}
	*c.request = *c.blank
	c.request.Header = h
	if len(c.answer.header) > keptFields {
		c.answer.header, c.answer.names = nil, nil
	}
	clear(c.answer.header)
	c.answer.r, c.body.r = nil, nil
	c.body.End()
}

func (c *conn) releaseOut() {
	if c.out != nil {
		c.out.Reset(nil)
		outs.Put(c.out)
		c.out = nil
	}
}

// refuse says by which status a head was refused, if there is one.
func (c *conn) refuse(why error) {
	if status, said := statusOf(why); said {
		c.s.Refused(status)
		c.nc.Write(Refusal(status))
	}
}

// statusOf is by which status a head is refused, and false where the connection broke.
func statusOf(why error) (status int, said bool) {
	if refused, is := errors.AsType[refusal](why); is {
		return refused.status, true
	}
	if errors.Is(why, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout, true
	}
	malformed, is := errors.AsType[message.Malformed](why)
	if malformed == message.ErrTooLong || malformed == message.ErrTooMany {
		return http.StatusRequestHeaderFieldsTooLarge, true
	}
	return http.StatusBadRequest, is
}
