package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
)

// errConnect is that an endpoint of HTTP/2 could not be connected to.
type errConnect struct{ error }

func (e errConnect) Unwrap() error { return e.error }

// errUnwritten is that nothing of a request was written to an endpoint of HTTP/2, which need not be at fault.
type errUnwritten struct{ error }

// h2cTransport has connections of HTTP/2 without TLS to one endpoint.
type h2cTransport struct {
	*http.Transport
	address string
}

func newH2C(to netip.AddrPort, o *upstream.Options) *h2cTransport {
	dialer := net.Dialer{Timeout: o.Connect}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, errConnect{err}
			}
			return c, nil
		},
		DisableCompression: true, IdleConnTimeout: o.Idle, ResponseHeaderTimeout: o.Head,
		MaxResponseHeaderBytes: int64(o.HeadBytes), Protocols: new(http.Protocols),
		// A connection whose other end has vanished is not used on until the kernel gives up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &h2cTransport{t, to.String()}
}

// leave closes the connections that are idle, and those that are a moment later: net/http takes one for busy for a while
// after its last response was read. One that is busy for longer closes when it has been idle for long.
func (t *h2cTransport) leave() {
	t.CloseIdleConnections()
	time.AfterFunc(time.Second, t.CloseIdleConnections)
}

// giveToH2C sends the request to an endpoint of HTTP/2, and reads the response's head.
func (x *exchange) giveToH2C(to *h2cTransport, now time.Time) *upstream.Error {
	q, err := x.requestForH2C(to.address)
	if err = cmp.Or(x.head.Err(), err); err != nil {
		return &upstream.Error{Class: upstream.Invalid, During: upstream.Sending, Err: err}
	}
	// net/http may read of the body for a while after it gave up.
	x.shared = x.hasBody && !x.small
	ctx, cancel := x.until(x.deadline(now))
	var connected, written atomic.Bool
	hints := &hints{x: x}
	r, err := to.RoundTrip(q.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }, WroteHeaders: func() { written.Store(true) },
		Got1xxResponse: hints.pass,
	})))
	tooMany := hints.end()
	if err != nil {
		defer cancel()
		if tooMany {
			return &upstream.Error{Class: upstream.Malformed, During: upstream.AwaitingHead, Err: errTooManyHints}
		}
		return x.failedH2C(ctx, err, connected.Load() && !written.Load())
	}
	x.try.cancel = cancel
	body := &h2cBody{r}
	x.answer = answer{r.StatusCode, body.header(), r.ContentLength, body}
	return nil
}

// hints are informational responses of one try. net/http gives them where it reads a connection that many requests share,
// so that a client which takes nothing must not be waited for there.
type hints struct {
	x *exchange

	mu   sync.Mutex
	n    int
	over bool
	// passing has those that a goroutine of their own passes on, nil before the first; passed waits for that.
	passing chan hint
	passed  sync.WaitGroup
}

type hint struct {
	status int
	header []message.Field
}

// errTooManyHints ends the try.
var errTooManyHints = message.Malformed("it has too many informational responses")

// pass has one passed on. 100 (Continue) is said to the client when its body is read.
func (h *hints) pass(status int, header textproto.MIMEHeader) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n++; h.n > upstream.MaxInformational {
		return errTooManyHints
	}
	if h.over || status == http.StatusContinue {
		return nil
	}
	if h.passing == nil {
		// There is room for all.
		h.passing = make(chan hint, upstream.MaxInformational)
		h.passed.Go(h.passOn)
	}
	h.passing <- hint{status, headersOf(http.Header(header))}
	return nil
}

func (h *hints) passOn() {
	for one := range h.passing {
		h.x.passOn(one.status, one.header)
	}
}

// end returns when all were passed on, and has no more passed on. It reports whether there were too many.
func (h *hints) end() (tooMany bool) {
	h.mu.Lock()
	h.over, tooMany = true, h.n > upstream.MaxInformational
	if h.passing != nil {
		close(h.passing)
	}
	h.mu.Unlock()
	h.passed.Wait()
	return tooMany
}

// until is the request's context with a deadline, zero for none.
func (x *exchange) until(by time.Time) (context.Context, context.CancelFunc) {
	if by.IsZero() {
		return context.WithCancel(x.r.Context())
	}
	return context.WithDeadline(x.r.Context(), by)
}

func (x *exchange) requestForH2C(address string) (*http.Request, error) {
	path, err := url.PathUnescape(x.path)
	if err != nil {
		return nil, err
	}
	q := &http.Request{
		Method: x.r.Method, Host: x.host, Header: http.Header{}, Proto: "HTTP/2.0", ProtoMajor: 2,
		URL: &url.URL{Scheme: "http", Host: address, Path: path, RawPath: x.path, ForceQuery: x.rest == "?"},
	}
	if x.rest != "" {
		q.URL.RawQuery = x.rest[1:]
	}
	x.writeFields(q.Header)
	// net/http takes this for an announcement, and writes its own.
	delete(q.Header, "Trailer")
	if q.Header["User-Agent"] == nil {
		// net/http would write its own.
		q.Header["User-Agent"] = []string{""}
	}
	switch {
	case x.small:
		body := bytes.Clone(x.kept)
		q.ContentLength = int64(len(body))
		q.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		q.Body, _ = q.GetBody()
	case x.hasBody:
		q.ContentLength, q.Trailer = x.r.ContentLength, http.Header{}
		maps.Copy(q.Trailer, x.r.Trailer)
		q.Body = h2cUpload{x, q.Trailer}
	}
	return q, nil
}

// h2cUpload is the body of a request for HTTP/2. At its end it fills the trailer, which net/http reads then.
type h2cUpload struct {
	x       *exchange
	trailer http.Header
}

func (u h2cUpload) Read(p []byte) (int, error) {
	n, err := u.x.body.Read(p)
	if err == io.EOF {
		maps.Copy(u.trailer, u.x.r.Trailer)
	}
	return n, err
}

func (h2cUpload) Close() error { return nil }

// failedH2C says how far a request had come. One that was not written on a connection may be one that net/http does not
// write: its head is longer than the endpoint takes, or has what has no place in HTTP/2. Another endpoint is asked, once.
func (x *exchange) failedH2C(ctx context.Context, err error, unwritten bool) *upstream.Error {
	failed := &upstream.Error{Class: upstream.NoResponse, During: upstream.AwaitingHead, Err: err}
	var network net.Error
	late := errors.As(err, &network) && network.Timeout()
	switch {
	case x.body.status.Load() != 0:
		failed.Class, failed.During = upstream.RequestBroken, upstream.Sending
	case x.r.Context().Err() != nil:
		failed.Class = upstream.Canceled
	case ctx.Err() != nil:
		failed.Class = upstream.TimedOut
	case errors.As(err, &errConnect{}):
		failed.Class, failed.During = upstream.NotConnected, upstream.Connecting
		if late {
			failed.Class = upstream.TimedOut
		}
	case unwritten && len(x.try.tried) > 1:
		failed.Class, failed.During = upstream.Invalid, upstream.Sending
	case unwritten:
		*failed = upstream.Error{Class: upstream.NotWritten, During: upstream.Sending, Err: errUnwritten{err}}
	case late:
		failed.Class = upstream.TimedOut
	}
	return failed
}

// h2cBody is the body of a response of HTTP/2.
type h2cBody struct{ r *http.Response }

func (b *h2cBody) Read(p []byte) (int, error) { return b.r.Body.Read(p) }

// Ready is never known.
func (b *h2cBody) Ready() bool { return false }

func (b *h2cBody) Close() { b.r.Body.Close() }

func (b *h2cBody) header() []message.Field {
	out := headersOf(b.r.Header)
	if len(b.r.Trailer) > 0 {
		out = append(out, message.Field{Name: "Trailer", Value: trailerNames(b.r.Trailer)})
	}
	return out
}

func (b *h2cBody) Trailer() []message.Field { return headersOf(b.r.Trailer) }

func headersOf(h http.Header) (out []message.Field) {
	for name, values := range h {
		for _, value := range values {
			out = append(out, message.Field{Name: name, Value: value})
		}
	}
	return out
}
