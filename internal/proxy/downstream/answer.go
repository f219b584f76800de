package downstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// answer is what a handler writes to.
type answer struct {
	c      *conn
	r      *http.Request
	header http.Header
	// names are those of the header, in their order.
	names []string
	// status is that of the final head, once it was written.
	status  int
	framing message.Framing
	// left are the bytes that are to come of a sized one.
	left int64

	// mu is held while a head is written: who reads the body may tell the client to go on. waits says whether it waits
	// for that.
	mu    sync.Mutex
	waits bool
}

func (w *answer) begin(r *http.Request) {
	if w.header == nil {
		w.header = http.Header{}
	}
	w.r, w.status, w.framing, w.left, w.waits = r, 0, message.None, 0, w.c.head.expects
}

// Header is that of http.ResponseWriter. Values are sent as they are, if they may be.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader writes an informational head at once, and keeps a final one until there is more, or Flush.
func (w *answer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.status != 0:
	case status == http.StatusContinue:
		w.sayContinue()
	case status < 200:
		w.c.out.Write(append(w.appendFields(appendStatus(w.c.out.AvailableBuffer(), status)), "\r\n"...))
		w.c.out.Flush()
	default:
		w.writeHead(status)
	}
}

// goOn tells a client that waits for it that its body is wanted.
func (w *answer) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sayContinue()
}

func (w *answer) sayContinue() {
	if w.waits {
		w.waits = false
		w.c.out.WriteString("HTTP/1.1 100 Continue\r\n\r\n")
		w.c.out.Flush()
	}
}

// writeHead writes the final head. A body that was not read to its end, or cannot be, is the connection's last.
func (w *answer) writeHead(status int) {
	c := w.c
	w.status, w.waits = status, false
	w.frame()
	if message.HasElement(strings.Join(w.header["Connection"], ","), "close") || !c.body.whole.Load() && !c.body.isSkipped() {
		c.last = true
	}
	b := appendStatus(c.out.AvailableBuffer(), status)
	if w.header["Date"] == nil {
		b = append(append(b, "Date: "...), date(time.Now())...)
		b = append(b, "\r\n"...)
	}
	b = w.appendFields(b)
	if w.framing == message.Chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	if c.last {
		b = append(b, "Connection: close\r\n"...)
	}
	c.out.Write(append(b, "\r\n"...))
}

// frame says how the client finds the body's end.
func (w *answer) frame() {
	length, err := int64(-1), error(nil)
	if said := w.header["Content-Length"]; len(said) > 0 {
		if length, err = strconv.ParseInt(said[0], 10, 64); err != nil || length < 0 {
			length = -1
			delete(w.header, "Content-Length")
		}
	}
	switch {
	case w.status == http.StatusNoContent:
		delete(w.header, "Content-Length")
		w.framing = message.None
	case w.r.Method == http.MethodHead || w.status == http.StatusNotModified:
		w.framing = message.None
	case length >= 0:
		w.framing, w.left = message.Sized, length
	case w.r.ProtoMinor > 0:
		w.framing = message.Chunked
	default:
		w.framing = message.UntilClose
		w.c.last = true
	}
}

// appendFields appends the header's fields, by name, but for those that the connection has.
func (w *answer) appendFields(b []byte) []byte {
	w.names = w.names[:0]
	for name := range w.header {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	for _, name := range w.names {
		if name == "Connection" || name == "Transfer-Encoding" || name == "Trailer" && w.framing != message.Chunked {
			continue
		}
		b = appendField(b, name, w.header[name])
	}
	// Each is a part of its head's text, and the connection may wait for long.
	clear(w.names)
	return b
}

// appendField leaves out what could be read as something else.
func appendField(b []byte, name string, values []string) []byte {
	for _, value := range values {
		if !message.IsToken(name) || !message.IsText(value) {
			continue
		}
		b = append(append(b, name...), ": "...)
		b = append(append(b, value...), "\r\n"...)
	}
	return b
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = append(strconv.AppendInt(b, int64(status), 10), ' ')
	return append(append(b, http.StatusText(status)...), "\r\n"...)
}

// Write writes a part of the body. It fails where that is longer than its head says.
func (w *answer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	out := w.c.out
	switch {
	case len(p) == 0:
		return 0, nil
	case w.framing == message.None && w.r.Method == http.MethodHead:
		return len(p), nil
	case w.framing == message.None:
		return 0, http.ErrBodyNotAllowed
	case w.framing == message.Sized && int64(len(p)) > w.left:
		return 0, http.ErrContentLength
	case w.framing == message.Chunked:
		out.Write(append(strconv.AppendUint(out.AvailableBuffer(), uint64(len(p)), 16), "\r\n"...))
		n, _ := out.Write(p)
		_, err := out.WriteString("\r\n")
		return n, err
	}
	w.left -= int64(len(p))
	return out.Write(p)
}

// Flush sends what was written, the head with it.
func (w *answer) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.c.out.Flush()
}

// finish sends the rest of the answer. One that is shorter than its head says is broken off.
func (w *answer) finish() {
	if w.status == 0 {
		w.header["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.framing == message.Chunked:
		w.c.out.Write(append(w.appendTrailer(append(w.c.out.AvailableBuffer(), "0\r\n"...)), "\r\n"...))
	case w.framing == message.Sized && w.left > 0:
		w.c.last = true
	}
	if w.c.out.Flush() != nil {
		w.c.last = true
	}
}

// appendTrailer appends the fields whose names begin with http.TrailerPrefix.
func (w *answer) appendTrailer(b []byte) []byte {
	for name, values := range w.header {
		if name, trails := strings.CutPrefix(name, http.TrailerPrefix); trails {
			b = appendField(b, name, values)
		}
	}
	return b
}

// SetReadDeadline bounds the reading of the body.
func (w *answer) SetReadDeadline(by time.Time) error { return w.c.nc.SetReadDeadline(by) }

// Hijack is that of http.Hijacker. What has come already is in the reader's buffer.
func (w *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := w.c
	if c.hijacked {
		return nil, nil, http.ErrHijacked
	}
	if w.status != 0 || !c.body.whole.Load() {
		return nil, nil, fmt.Errorf("a connection is taken over before the answer, and after the body")
	}
	c.presence.unwatch()
	early := slices.Clone(c.in.Buffered())
	c.hijacked = true
	c.nc.SetReadDeadline(time.Time{})
	c.s.ConnState(c.nc, http.StateHijacked)
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early), c.nc), max(len(early), 16))
	in.Peek(len(early))
	return c.nc, bufio.NewReadWriter(in, bufio.NewWriter(c.nc)), nil
}

// Refusal is an answer that ends its connection, and says no more than its status.
func Refusal(status int) []byte {
	text := strconv.Itoa(status) + " " + http.StatusText(status) + "\n"
	b := appendStatus(nil, status)
	return fmt.Appendf(b, "Date: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		date(time.Now()), len(text), text)
}

// dated is the value of Date in a second.
type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]

// date is the value of Date (RFC 9110, 6.6.1), which is made once in a second.
func date(now time.Time) string {
	last := lastDate.Load()
	if second := now.Unix(); last == nil || last.second != second {
		last = &dated{second, now.UTC().Format(http.TimeFormat)}
		lastDate.Store(last)
	}
	return last.text
}
