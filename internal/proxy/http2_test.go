package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// h2Session is a connection of HTTP/2 frame by frame, from a client's side.
type h2Session struct {
	*http1.Session
	*http2.Framer
}

// dialH2 connects to the listener of that port of the table, without TLS.
func dialH2(t testing.TB, s *Server, port uint16, settings ...http2.Setting) h2Session {
	t.Helper()
	return h2Over(dial(t, s, port), settings...)
}

func h2Over(c *http1.Session, settings ...http2.Setting) h2Session {
	c.Say(http2.ClientPreface)
	h := h2Session{c, http2.NewFramer(c, c.In)}
	h.WriteSettings(settings...)
	return h
}

// get asks for a path of the host a.
func (h h2Session) get(stream uint32, path string, more ...hpack.HeaderField) {
	all := headed(path, more...)
	part := func() []byte {
		n := min(len(all), 16<<10)
		defer func() { all = all[n:] }()
		return all[:n]
	}
	first := part()
	h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: true, EndHeaders: len(all) == 0, BlockFragment: first})
	for len(all) > 0 {
		next := part()
		h.WriteContinuation(stream, len(all) == 0, next)
	}
}

func headed(path string, more ...hpack.HeaderField) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "a"}, {Name: ":path", Value: path},
	}, more...) {
		e.WriteField(f)
	}
	return b.Bytes()
}

// next is the next frame of a kind, nil where the connection ends before it.
func (h h2Session) next(kind http2.FrameType) http2.Frame {
	for {
		f, err := h.ReadFrame()
		if err != nil {
			return nil
		}
		if f.Header().Type == kind {
			return f
		}
	}
}

// TestNoWindow: a client of HTTP/2 that takes nothing of an answer does not keep its stream, whoever the answer is of and
// however small it is, nor a connection to an endpoint. One whose endpoint has nothing to say does.
func TestNoWindow(t *testing.T) {
	const patience = 300 * time.Millisecond
	e := handled(t, "sizes", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(make([]byte, 4<<20))
		case "/later":
			io.WriteString(w, "soon ")
			w.(http.Flusher).Flush()
			<-time.After(4 * patience)
			io.WriteString(w, "later")
		default:
			io.WriteString(w, "small")
		}
	})
	s := started(t, func(o *Options) { o.Write = patience })
	tell(t, s, append(backendOf(cheddar, e), web(), route("all"))...)
	for _, path := range []string{"/large", "/small", "/../of our own"} {
		c := dialH2(t, s, 80, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		c.get(1, path)
		if c.next(http2.FrameRSTStream) == nil {
			t.Errorf("%s: the stream does not end", path)
		}
		await.True(t, path+": nothing is under way", func() bool { return s.proxy.under.Load() == 0 })
	}
	c := clientAt(t, s, 80, func(tr *http.Transport) {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	})
	if text := got(t, c, "http://a/later"); text != "200 soon later" {
		t.Error(text)
	}
}

// TestFloodsOfControl is line 46 of the edge cases: who floods a connection of HTTP/2 with what has to be answered, and
// takes no answer, loses it; who takes them holds nobody up.
func TestFloodsOfControl(t *testing.T) {
	s := serving(t, saying(t, "hello"))
	for name, flood := range map[string]func(*http2.Framer) error{
		"PING": func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) },
		"SETTINGS": func(f *http2.Framer) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		},
	} {
		c := dialH2(t, s, 80)
		go io.Copy(io.Discard, c.In)
		var all bytes.Buffer
		f := http2.NewFramer(&all, nil)
		for range 20_000 {
			flood(f)
		}
		c.Conn.Write(all.Bytes())
		if text := got(t, clientAt(t, s, 80), "http://a/"); text != "200 hello" {
			t.Errorf("%s: %s", name, text)
		}
	}
	// Acknowledgements that nobody takes pile up.
	s = started(t)
	listen := s.listen
	s.listen = func(address string) (net.Listener, error) {
		l, err := listen(address)
		return narrow{l}, err
	}
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	c := h2Over(http1.Dial(t, s.Addresses()[80].String(), takingLittle))
	var many bytes.Buffer
	f := http2.NewFramer(&many, nil)
	for range 1000 {
		f.WritePing(false, [8]byte{})
	}
	var failed error
	for begun := time.Now(); failed == nil && time.Since(begun) < 20*time.Second; {
		_, failed = c.Conn.Write(many.Bytes())
	}
	if failed == nil || errors.Is(failed, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %v", failed)
	}
}

// takingLittle has a client take little before it reads. It is said before it connects: a window that shrinks when there
// is more under way has the kernel throw away what the server acknowledges.
func takingLittle(d *net.Dialer) {
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
		return cmp.Or(err, failed)
	}
}

// narrow is a listener whose connections hold little of what their clients do not take.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// TestLimitsOfHeadsOfHTTP2: too large is 431, one field that is too large by itself ends the connection, and one on which
// a head does not come to its end does not stay.
func TestLimitsOfHeadsOfHTTP2(t *testing.T) {
	s := started(t, func(o *Options) { o.Head, o.Idle = 300*time.Millisecond, 300*time.Millisecond })
	tell(t, s, append(backendOf(cheddar, saying(t, "hello")), web(), route("all"))...)
	fields := func(n, size int) (all []hpack.HeaderField) {
		for i := range n {
			all = append(all, hpack.HeaderField{Name: fmt.Sprint("x", i), Value: strings.Repeat("x", size)})
		}
		return all
	}
	for want, more := range map[string][]hpack.HeaderField{"431": fields(18, 4<<10), "": fields(1, 70<<10), "200": fields(15, 4<<10)} {
		c := dialH2(t, s, 80)
		c.get(1, "/", more...)
		if status := c.status(t); status != want {
			t.Errorf("%d fields: the answer is %q, want %q", len(more), status, want)
		}
	}
	for name, text := range map[string]string{
		"in the preface":       http2.ClientPreface[:20],
		"before its settings":  http2.ClientPreface,
		"in a frame":           http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x10\x01\x04\x00\x00\x00\x01\x82",
		"before CONTINUATION":  http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82",
		"before its first one": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		c := dial(t, s, 80)
		c.Say(text)
		if _, err := io.Copy(io.Discard, c.In); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection goes on", name)
		}
	}
}

// status is that of the next answer, empty where the connection ends before it.
func (h h2Session) status(t testing.TB) (status string) {
	t.Helper()
	f, fine := h.next(http2.FrameHeaders).(*http2.HeadersFrame)
	if !fine {
		return ""
	}
	fields, err := hpack.NewDecoder(4096, nil).DecodeFull(f.HeaderBlockFragment())
	if err != nil || len(fields) == 0 {
		t.Fatalf("the head is %v, %v", fields, err)
	}
	return fields[0].Value
}

// TestBodiesThatDoNotCome: of bodies that are said to come, and do not, little is kept, whether they are small or are sent as
// they come.
func TestBodiesThatDoNotCome(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, length := range []string{"65536", "65537"} {
		s := started(t, func(o *Options) { o.Upstream.Connect, o.BodyWindow = time.Hour, time.Hour })
		tell(t, s, append(backendOf(cheddar, endpointAt(silent.Addr(), "silent")), web(), route("all"))...)
		const connections, streams = 4, 250
		before := inUse()
		for range connections {
			c := dialH2(t, s, 80)
			for i := range uint32(streams) {
				head := headed("/", hpack.HeaderField{Name: "content-length", Value: length})
				c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, EndHeaders: true, BlockFragment: head})
			}
		}
		await.True(t, "all are under way", func() bool { return s.proxy.under.Load() == connections*streams })
		if length == "65537" {
			await.True(t, "all have a connection", func() bool {
				states, _ := s.proxy.Endpoints(cheddar, 1)
				return states[0].Open == connections*streams
			})
		}
		<-time.After(200 * time.Millisecond)
		if each := (inUse() - before) / (connections * streams); each > 36<<10 {
			t.Errorf("of a body of %s bytes that does not come %d are kept", length, each)
		}
		s.Close()
	}
}

// inUse are the bytes that are kept.
func inUse() int {
	// What pools have goes with the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse)
}

// TestAnswersThatWait: of answers that have begun, and whose endpoints say little and wait, little is kept.
func TestAnswersThatWait(t *testing.T) {
	e, _ := played(t, "waiting", func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 200 OK\r\n\r\ndata: hello\n\n")
		s.Hold()
	})
	s := serving(t, e)
	const connections, streams = 4, 250
	before := inUse()
	for range connections {
		c := dialH2(t, s, 80)
		for i := range uint32(streams) {
			c.get(2*i+1, "/")
		}
		for range streams {
			if c.next(http2.FrameData) == nil {
				t.Fatal("the connection has ended")
			}
		}
	}
	// The endpoint's connections are among them.
	if each := (inUse() - before) / (connections * streams); each > 50<<10 {
		t.Errorf("of each %d bytes are kept", each)
	}
}
