package upstream

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// Head is what a request begins with. It is written once, part by part, and sent at each try. The zero
// value is ready for Start, and so is one of before, whose memory is used again.
type Head struct {
	buf     []byte
	method  string
	length  int64
	upgrade string
	err     error
}

// Start writes the request line, Host and the framing. A length of -1 is a body of unknown length, 0 is
// none. The method is to be a token other than CONNECT, the target a path with its query, or "*".
func (h *Head) Start(method, target, host string, length int64) {
	*h = Head{buf: h.buf[:0], method: method, length: length}
	switch {
	case !message.IsToken(method) || method == http.MethodConnect:
		h.fail("method", method)
	case !isTarget(target):
		h.fail("target", target)
	case !isHost(host):
		h.fail("host", host)
	case length < -1:
		h.fail("length", strconv.FormatInt(length, 10))
	}
	h.put(method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n")
	switch {
	case length < 0:
		h.put("Transfer-Encoding: chunked\r\n")
	case length > 0 || expectsBody(method):
		h.put("Content-Length: ")
		h.buf = strconv.AppendInt(h.buf, length, 10)
		h.put("\r\n")
	}
}

// Add writes a field. It may not be one of those that Start and Upgrade write or that are about one
// connection, whatever its case.
func (h *Head) Add(name, value string) {
	if !message.IsToken(name) || isReserved(name) || !message.IsText(value) {
		h.fail("field", name)
		return
	}
	h.put(name, ": ", value, "\r\n")
}

// Upgrade asks for another protocol on the connection, by its name; never for HTTP/2.
func (h *Head) Upgrade(protocol string) {
	name, version, versioned := strings.Cut(protocol, "/")
	if !message.IsToken(name) || versioned && !message.IsToken(version) || strings.EqualFold(name, "h2c") || strings.EqualFold(name, "h2") {
		h.fail("protocol", protocol)
		return
	}
	h.upgrade = protocol
	h.put("Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n")
}

func (h *Head) put(parts ...string) {
	for _, p := range parts {
		h.buf = append(h.buf, p...)
	}
}

func (h *Head) fail(what, value string) {
	if h.err == nil {
		h.err = fmt.Errorf("%s %.100q cannot be sent", what, value)
	}
}

// Err is why it cannot be sent, nil where it can.
func (h *Head) Err() error { return h.err }

// text is all of it, with the empty line.
func (h *Head) text() []byte {
	text := append(h.buf, "\r\n"...)
	h.buf = text[:len(h.buf)]
	return text
}

// isTarget reports whether a target is in origin form or asterisk form (RFC 9112, 3.2) and has no space nor
// control byte, with which what follows would be read as another request.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s == "*" || s != "" && s[0] == '/'
}

// isHost reports whether a host can stand alone in its field. It may be empty (RFC 9110, 7.2).
func isHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || strings.IndexByte(",/?#@\\", c) >= 0 {
			return false
		}
	}
	return true
}

// expectsBody reports whether a request of the method says so when it has no body (RFC 9110, 8.6).
func expectsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

var reserved = []string{"Content-Length", "Transfer-Encoding", "Host", "Connection", "Upgrade", "Keep-Alive", "Proxy-Connection"}

func isReserved(name string) bool {
	for _, r := range reserved {
		if len(name) == len(r) && strings.EqualFold(name, r) {
			return true
		}
	}
	return false
}

// Request is what Do sends.
type Request struct {
	Head *Head
	// Body is one that is at hand. It is sent with the head at once, and may be sent again.
	Body []byte
	// Stream is another, which is read once, by a goroutine of its own that ends before Do fails or the
	// response is closed.
	Stream io.Reader
	// Stop makes Stream's Read return when its rest is not wanted any more. Without it, closing the response
	// waits until Read returns by itself.
	Stop func()
	// Trailer gives what is sent after a Stream of unknown length, but for fields that have no place there. It is
	// asked when Stream has ended, and may be nil.
	Trailer func() http.Header
	// Expect says whether the head has "Expect: 100-continue": then Stream is not read until 100 (Continue)
	// comes, or Options.Continue is over; and never, if a final response comes before.
	Expect bool
	// Fresh says whether it is sent on a new connection, never on one that was idle.
	Fresh bool
	// Deadline bounds all of the exchange; zero is none.
	Deadline time.Time
	// Informational is told of each 1xx response but 101: of 100 (Continue) once at most, and only while
	// Stream waits for it. The fields are valid until it returns.
	Informational func(status int, fields []message.Field)
}

// check reports whether the parts fit together.
func (q *Request) check() error {
	h := q.Head
	switch {
	case h.err != nil:
		return h.err
	case h.method == "":
		return fmt.Errorf("the head was not started")
	case q.Body != nil && q.Stream != nil, q.Stream == nil && int64(len(q.Body)) != h.length, q.Stream != nil && h.length == 0:
		return fmt.Errorf("the body does not have the length of the head, %d", h.length)
	case h.upgrade != "" && h.length != 0:
		return fmt.Errorf("a request for another protocol has a body")
	}
	return nil
}
