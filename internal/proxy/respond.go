package proxy

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// Values of fields that many answers have. Nobody changes them.
var (
	closes    = []string{"close"}
	plainText = []string{"text/plain; charset=utf-8"}
	methods   = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}
)

// respond sends an endpoint's answer back, or cuts the client's connection or stream off where that
// breaks off: the client is not to take a part for the whole.
func (x *exchange) respond() {
	a := &x.answer
	if a.status == http.StatusSwitchingProtocols {
		x.switchProtocols()
		return
	}
	defer x.endAnswer()
	h := x.mustHaveHeader()
	copyFields(h, a.header, a.length < 0, x.valuesFor(len(a.header)))
	if a.length >= 0 && mayHaveLength(a.status) {
		h["Content-Length"] = []string{strconv.FormatInt(a.length, 10)}
	}
	x.beginAnswer(a.status)
	if !x.copyBody() {
		if a.length < 0 && !x.r.ProtoAtLeast(1, 1) {
			// Nothing but the connection's end tells such a client where the body ends.
			x.client.reset()
		}
		panic(http.ErrAbortHandler)
	}
	x.sendTrailer()
}

// valuesFor is room for so many values of the answer's header. Of HTTP/1.1 nobody has them any more when the handler
// returns.
func (x *exchange) valuesFor(n int) []string {
	if x.r.ProtoMajor != 1 {
		return make([]string, n)
	}
	x.values = append(x.values[:0], make([]string, n)...)
	return x.values
}

// mayHaveLength reports whether a response of the status may have Content-Length (RFC 9110, 8.6).
func mayHaveLength(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// beginAnswer writes the head.
func (x *exchange) beginAnswer(status int) {
	h := x.w.Header()
	x.stick(h)
	x.filterResponse(h)
	if h["Content-Type"] == nil {
		// net/http would guess one.
		h["Content-Type"] = nil
	}
	if x.last || x.p.draining.Load() {
		// Of HTTP/2 net/http makes a GOAWAY of it.
		h["Connection"] = closes
	}
	x.status = status
	x.boundWrites()
	x.w.WriteHeader(status)
	if x.hasBody {
		x.body.unbind()
	}
}

// boundWrites gives a client of HTTP/2 some time to take what is written next, or else its stream ends: as long as
// may be, or a quarter longer, so that it is not set each time. Where the client gives no window nothing is written, so
// that the connection's own bound does not hold. This one holds after the handler's end, too: net/http writes the last
// of an answer then.
func (x *exchange) boundWrites() {
	patience := x.p.options.Write
	if x.r.ProtoMajor != 2 || patience == 0 {
		return
	}
	if now := time.Now(); x.writeBy.Sub(now) < patience {
		x.setWriteBy(now.Add(patience + patience/4))
	}
}

// freeWrites takes the bound away: the client has taken all, and the endpoint is waited for.
func (x *exchange) freeWrites() {
	if !x.writeBy.IsZero() {
		x.setWriteBy(time.Time{})
	}
}

func (x *exchange) setWriteBy(by time.Time) {
	x.writeBy = by
	if conn, fine := x.w.(interface{ SetWriteDeadline(time.Time) error }); fine {
		conn.SetWriteDeadline(by)
	}
}

// stick gives the client the name of its endpoint, unless it came with that.
func (x *exchange) stick(h http.Header) {
	t := &x.try
	if t.given == "" || t.endpoint == nil || t.endpoint.Cookie == "" || t.endpoint.Cookie == t.cookie {
		return
	}
	c := http.Cookie{Name: t.given, Value: t.endpoint.Cookie, Path: "/", HttpOnly: true, Secure: x.asked.TLS, SameSite: http.SameSiteLaxMode}
	h.Add("Set-Cookie", c.String())
}

// copyBody sends the body as it comes: what has been read is not held back while more is waited for. It
// is false where either side breaks off.
func (x *exchange) copyBody() bool {
	a := &x.answer
	if x.r.Method == http.MethodHead || !mayHaveLength(a.status) {
		return true
	}
	if a.length != 0 && !a.body.Ready() {
		x.flush()
	}
	buf := newCopyBuffer()
	defer buf.put()
	for {
		n, err := a.body.Read(buf.bytes())
		if n > 0 {
			x.boundWrites()
			if _, failed := x.w.Write(buf.bytes()[:n]); failed != nil {
				return false
			}
		}
		buf.grow(n)
		switch {
		case err == io.EOF:
			return true
		case err != nil:
			x.backend.counts.broken.Add(1)
			return false
		case !a.body.Ready():
			x.flush()
		}
	}
}

// flush sends what is held back, before more is waited for.
func (x *exchange) flush() {
	x.w.(http.Flusher).Flush()
	x.freeWrites()
}

// sendTrailer sends fields that came after the body.
func (x *exchange) sendTrailer() {
	trailer := x.answer.body.Trailer()
	if len(trailer) == 0 {
		return
	}
	// Only a body of unknown length can have one, and net/http knows the length of one that it holds back.
	x.w.(http.Flusher).Flush()
	h := x.w.Header()
	for _, field := range trailer {
		name := http.TrailerPrefix + field.Name
		h[name] = append(h[name], field.Value)
	}
}

func (x *exchange) endAnswer() {
	x.answer.body.Close()
	if x.try.cancel != nil {
		x.try.cancel()
	}
}

// passOn sends an informational response on. It is called while the handler waits for the final one.
func (x *exchange) passOn(status int, header []message.Field) {
	switch {
	case !x.r.ProtoAtLeast(1, 1):
	case status == http.StatusContinue:
		// Of HTTP/2, net/http sends it when the body is read.
		if x.r.ProtoMajor == 1 {
			x.w.WriteHeader(status)
		}
	case !x.expects:
		// With it, net/http may be sending 100 (Continue) by itself.
		if h, free := x.answerHeader(); free {
			copyFields(h, header, false, make([]string, len(header)))
			x.hinted = true
			x.w.WriteHeader(status)
		}
	}
}

// answerHeader is the header of what is answered next, empty. It is not free to be written where a client of HTTP/2 has
// left since an informational response: net/http waits no more until that is written, and may be reading it.
func (x *exchange) answerHeader() (h http.Header, free bool) {
	h = x.w.Header()
	if !x.hinted {
		return h, true
	}
	if x.r.ProtoMajor != 1 && x.r.Context().Err() != nil {
		return nil, false
	}
	clear(h)
	x.hinted = false
	return h, true
}

// mustHaveHeader is answerHeader of the final answer. Where that is not free nobody waits for it.
func (x *exchange) mustHaveHeader() http.Header {
	h, free := x.answerHeader()
	if !free {
		x.refuse(statusGone)
	}
	return h
}

// refuse answers by itself, or not at all where nobody waits for it.
func (x *exchange) refuse(status int) {
	if status == statusGone {
		x.status = status
		panic(http.ErrAbortHandler)
	}
	text := strconv.Itoa(status) + " " + http.StatusText(status) + "\n"
	h := x.mustHaveHeader()
	h["Content-Type"] = plainText
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	if why := x.proxyStatus(status); why != "" {
		h["Proxy-Status"] = []string{why}
	}
	if x.location != "" {
		h["Location"] = []string{x.location}
	}
	if status == http.StatusMethodNotAllowed {
		h["Allow"] = methods
	}
	x.beginAnswer(status)
	io.WriteString(x.w, text)
}
