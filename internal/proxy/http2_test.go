package proxy

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Session is a connection of HTTP/2 frame by frame, from a client's side.
type h2Session struct {
	*http1.Session
	*http2.Framer
}

// dialH2 connects to the listener of that port of the table, without TLS.
func dialH2(t testing.TB, s *Server, port uint16, settings ...http2.Setting) h2Session {
	t.Helper()
	c := dial(t, s, port)
	c.Say(http2.ClientPreface)
	h := h2Session{c, http2.NewFramer(c, c.In)}
	h.WriteSettings(settings...)
	return h
}

// get asks for a path of the host a.
func (h h2Session) get(stream uint32, path string, more ...hpack.HeaderField) {
	h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: true, EndHeaders: true, BlockFragment: headed(path, more...)})
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
