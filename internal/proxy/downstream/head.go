package downstream

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// refusal is by which status a head is refused where that is not 400, and why.
type refusal struct {
	status int
	why    string
}

func (r refusal) Error() string { return r.why }

// errPreface is that what came is the beginning of HTTP/2 (RFC 9113, 3.4).
var errPreface = errors.New("it is the preface of HTTP/2")

var preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

// head is that of a request, without the fields of its framing and without Host.
type head struct {
	method, target, host string
	minor                int
	fields               []message.Field
	framing              message.Framing
	// length is that of Content-Length, -1 where there is none.
	length int64
	// announced are the names of a trailer, in canonical form.
	announced []string
	// close says whether the client wants no other answer, expects whether it waits for 100 (Continue).
	close, expects bool
	hosts          int
}

// readHead reads the next head. Its error is errPreface, a refusal, message.Malformed, or that of the connection.
func (c *conn) readHead() error {
	c.reads = heads
	for b := c.in.Buffered(); bytes.HasPrefix(preface, b); b = c.in.Buffered() {
		if len(b) == len(preface) {
			return errPreface
		}
		if err := c.in.Fill(); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(c.in.Buffered(), preface) {
		return errPreface
	}
	text, err := c.in.Head(c.s.HeadBytes, beginsLikeRequest)
	if err != nil {
		return err
	}
	c.headBy = time.Time{}
	return c.head.parse(string(text))
}

// beginsLikeRequest reports what cannot become a request.
func beginsLikeRequest(b []byte) error {
	if len(b) > 0 && !message.IsToken(string(b[:1])) {
		return message.Malformed("it is no request of HTTP/1")
	}
	return nil
}

// parse reads a head with its empty line. Fields are parts of text.
func (h *head) parse(text string) error {
	*h = head{fields: h.fields[:0], length: -1}
	line, rest := message.CutLine(text)
	if err := h.parseLine(line); err != nil {
		return err
	}
	for line, rest = message.CutLine(rest); line != ""; line, rest = message.CutLine(rest) {
		f, err := message.ParseField(line)
		if err != nil {
			return err
		}
		framing, err := h.note(f)
		if err != nil {
			return err
		}
		if !framing {
			h.fields = append(h.fields, f)
		}
		if len(h.fields) > message.MaxFields {
			return message.ErrTooMany
		}
	}
	return h.check()
}

// parseLine reads "GET /path HTTP/1.1".
func (h *head) parseLine(line string) error {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if !message.IsToken(method) || !isTarget(target) {
		return message.Malformed("the request line is malformed")
	}
	major, minor, versioned := cutVersion(version)
	if !versioned {
		return message.Malformed("the version is malformed")
	}
	if major != 1 {
		return refusal{http.StatusHTTPVersionNotSupported, "the version is not HTTP/1"}
	}
	h.method, h.target, h.minor = method, target, minor
	return nil
}

// cutVersion reads "HTTP/1.1".
func cutVersion(s string) (major, minor int, fine bool) {
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	if len(s) != len("HTTP/1.1") || s[:5] != "HTTP/" || !isDigit(s[5]) || s[6] != '.' || !isDigit(s[7]) {
		return 0, 0, false
	}
	return int(s[5] - '0'), int(s[7] - '0'), true
}

// isTarget reports whether s has no space nor control byte, and some other.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// note takes in what a field says of the framing or of the connection, and tells whether it says nothing else.
func (h *head) note(f message.Field) (framing bool, err error) {
	switch f.Name {
	case "Content-Length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || h.length >= 0 {
			return true, message.Malformed("Content-Length is no number, or there are two")
		}
		h.length = int64(n)
		return true, nil
	case "Transfer-Encoding":
		if h.framing == message.Chunked || !message.IsWord(f.Value, "chunked") {
			return true, refusal{http.StatusNotImplemented, "Transfer-Encoding is not chunked once"}
		}
		h.framing = message.Chunked
		return true, nil
	case "Host":
		h.host = f.Value
		h.hosts++
		return true, nil
	case "Connection":
		h.close = h.close || message.HasElement(f.Value, "close")
	case "Expect":
		if !message.IsWord(f.Value, "100-continue") {
			return false, refusal{http.StatusExpectationFailed, "Expect is not 100-continue"}
		}
		h.expects = true
	case "Trailer":
		return false, h.announce(f.Value)
	}
	return false, nil
}

// announce takes in the names of a trailer.
func (h *head) announce(list string) error {
	for one := range strings.SplitSeq(list, ",") {
		name := http.CanonicalHeaderKey(strings.Trim(one, " \t"))
		switch name {
		case "":
			continue
		case "Content-Length", "Transfer-Encoding", "Trailer":
			return message.Malformed("the trailer is to have a field of the framing")
		}
		h.announced = append(h.announced, name)
	}
	return nil
}

// check reports what does not fit together, and says how the body's end is found. Two framings, and chunks of
// HTTP/1.0, another may read otherwise (RFC 9112, 6.1).
func (h *head) check() error {
	switch {
	case h.hosts > 1, h.hosts == 0 && h.minor > 0:
		return message.Malformed("Host is not there once")
	case h.framing == message.Chunked && (h.length >= 0 || h.minor == 0):
		return message.Malformed("Transfer-Encoding with Content-Length, or of HTTP/1.0")
	}
	if h.length > 0 {
		h.framing = message.Sized
	}
	h.close = h.close || h.minor == 0
	h.expects = h.expects && h.minor > 0 && h.framing != message.None
	return h.preferTarget()
}

// preferTarget takes the host of a target that has one (RFC 9112, 3.2.2).
func (h *head) preferTarget() error {
	scheme, after, absolute := strings.Cut(h.target, "://")
	if h.target[0] == '/' || !absolute {
		return nil
	}
	h.host = after
	if end := strings.IndexAny(after, "/?"); end >= 0 {
		h.host = after[:end]
	}
	if !message.IsToken(scheme) || h.host == "" || strings.ContainsAny(h.host, "@#") {
		return message.Malformed("the target is malformed")
	}
	return nil
}

// requestOf is the request of the head. One without a body has the memory of the one before, which nobody has any more.
func (c *conn) requestOf() *http.Request {
	h, r := &c.head, c.request
	if h.framing == message.None {
		c.values = append(c.values[:0], make([]string, len(h.fields))...)
		r.Header, r.Body = headerOf(h.fields, r.Header, c.values), http.NoBody
	} else {
		r = c.blank.WithContext(c.presence)
		r.Header, r.Trailer = headerOf(h.fields, nil, make([]string, len(h.fields))), h.trailer()
		r.Body, r.ContentLength = &c.body, h.length
		c.armed = longAgo
		c.nc.SetReadDeadline(time.Time{})
	}
	r.Method, r.RequestURI, r.Host, r.TLS = h.method, h.target, h.host, c.state
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, h.minor
	if h.minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	c.body.begin(r)
	c.last = h.close
	return r
}

// trailer has the names that were announced.
func (h *head) trailer() (t http.Header) {
	for _, name := range h.announced {
		if t == nil {
			t = http.Header{}
		}
		t[name] = nil
	}
	return t
}

// headerOf has the fields by name, in memory that is given: values has room for each.
func headerOf(fields []message.Field, into http.Header, values []string) http.Header {
	if into == nil {
		into = make(http.Header, len(fields))
	}
	for i, f := range fields {
		f.AddTo(into, values[i:])
	}
	return into
}
