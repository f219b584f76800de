package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// whole is a response, from its head to its end.
type whole struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	wrong   bool
}

// readAll reads a response as an exchange does.
func readAll(src io.Reader, head bool) (m whole) {
	in := message.Reader{Src: src}
	defer in.Release()
	text, err := in.Head(64<<10, beginsLikeResponse)
	if err != nil {
		return whole{wrong: true}
	}
	a, fields, err := parseHead(string(text), nil)
	if err != nil {
		return whole{wrong: true}
	}
	m.status, m.header = a.status, headerOf(fields)
	var b message.Body
	b.Begin(&in, a.framing(head), a.length)
	data, err := io.ReadAll(&b)
	m.body, m.trailer, m.wrong = string(data), headerOf(b.Trailer()), err != nil
	return m
}

func headerOf(fields []message.Field) http.Header {
	out := http.Header{}
	for _, f := range fields {
		out[f.Name] = append(out[f.Name], f.Value)
	}
	return out
}

// readByPeer reads it with net/http.
func readByPeer(text string, head bool) (m whole) {
	q := &http.Request{Method: "GET"}
	if head {
		q.Method = "HEAD"
	}
	r, err := http.ReadResponse(bufio.NewReaderSize(strings.NewReader(text), 256<<10), q)
	if err != nil {
		return whole{wrong: true}
	}
	data, err := io.ReadAll(r.Body)
	return whole{r.StatusCode, r.Header, string(data), r.Trailer, err != nil}
}

// FuzzResponse: what is accepted, net/http accepts and understands as the same. Less may be accepted,
// never more.
func FuzzResponse(f *testing.F) {
	for _, o := range oddities {
		if len(o.answer) < 2000 {
			f.Add(o.answer, o.method == "HEAD", byte(0))
			f.Add(o.answer, false, byte(3))
		}
	}
	f.Add(ok+"Pragma: no-cache\r\nTrailer: a, b\r\n"+te+"\r\n1\r\nx\r\n0\r\na: 1\r\na: 2\r\n\r\n", false, byte(1))
	f.Fuzz(func(t *testing.T, text string, head bool, size byte) {
		var src io.Reader = strings.NewReader(text)
		if size > 0 {
			src = http1.Pieces(text, int(size))
		}
		ours := readAll(src, head)
		if ours.wrong {
			return
		}
		peers := readByPeer(text, head)
		// These net/http takes out of the header, or adds.
		for _, name := range []string{"Connection", "Trailer", "Cache-Control", "Content-Length"} {
			ours.header.Del(name)
			peers.header.Del(name)
		}
		// What is announced and does not come has no value.
		for name, values := range peers.trailer {
			if values == nil {
				delete(peers.trailer, name)
			}
		}
		if len(peers.trailer) == 0 {
			peers.trailer = http.Header{}
		}
		if !reflect.DeepEqual(ours, peers) {
			t.Errorf("%q is read as %+v, by net/http as %+v", text, ours, peers)
		}
	})
}

// FuzzChunks is the same of the chunked coding alone, with any cuts.
func FuzzChunks(f *testing.F) {
	for _, o := range oddities {
		if _, body, found := strings.Cut(o.answer, te+"\r\n"); found && len(body) < 2000 {
			f.Add([]byte(body), byte(1), uint16(3))
			f.Add([]byte(body), byte(0), uint16(8000))
		}
	}
	f.Fuzz(func(t *testing.T, coded []byte, size byte, room uint16) {
		text := ok + te + "\r\n" + string(coded)
		in := message.Reader{Src: http1.Pieces(string(coded), int(size)+1)}
		defer in.Release()
		var b message.Body
		b.Begin(&in, message.Chunked, 0)
		var data bytes.Buffer
		p := make([]byte, int(room)+1)
		for {
			n, err := b.Read(p)
			data.Write(p[:n])
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			if n == 0 {
				t.Fatalf("%q: nothing is read, and there is no error", coded)
			}
		}
		if peers := readByPeer(text, false); peers.wrong || peers.body != data.String() {
			t.Errorf("%q is read as %q, by net/http as %q (wrong: %t)", coded, &data, peers.body, peers.wrong)
		}
	})
}

// FuzzHead: a head that is accepted is read as one request with just these parts and one framing.
func FuzzHead(f *testing.F) {
	f.Add("GET", "/", "example.com", int64(0), "X", "y", "")
	f.Add("POST", "/a?b=c", "[::1]:80", int64(-1), "Te", "trailers", "")
	f.Add("PUT", "/ HTTP/1.1\r\nX: ", "a b", int64(7), "Content-Length", "5", "")
	f.Add("G\nET", "/\x00", "", int64(3), "X: a\r\nY", "a\r\nb", "websocket")
	f.Add("GET", "*", "a,b", int64(0), "transfer-encoding", "chunked", "h2c")
	f.Fuzz(func(t *testing.T, method, target, host string, length int64, name, value, protocol string) {
		var h Head
		h.Start(method, target, host, length)
		h.Add(name, value)
		if protocol != "" {
			h.Upgrade(protocol)
		}
		if h.err != nil {
			return
		}
		text := string(h.text())
		in := bufio.NewReader(strings.NewReader(text))
		q, err := http.ReadRequest(in)
		if err != nil {
			// It asks more of targets and hosts than RFC 9112 does, and of nothing else.
			if _, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: a\r\n" + strings.SplitN(text, "\r\n", 3)[2]))); err != nil {
				t.Fatalf("%q is no request: %v", text, err)
			}
			return
		}
		framings := strings.Count(strings.ToLower(text), "\r\ncontent-length:") + strings.Count(strings.ToLower(text), "\r\ntransfer-encoding:")
		if want := 1; framings > want || framings == 0 && length != 0 {
			t.Errorf("%q has %d framings", text, framings)
		}
		if q.Method != method || q.RequestURI != target || q.ContentLength != length {
			t.Errorf("%q is read as %s %s with %d bytes", text, q.Method, q.RequestURI, q.ContentLength)
		}
		if got := q.Header.Get(name); !strings.EqualFold(name, "trailer") && got != strings.Trim(value, " \t") {
			t.Errorf("%q: %s is %q", text, name, got)
		}
		if in.Buffered() > 0 {
			t.Errorf("%q has %d bytes after the head", text, in.Buffered())
		}
	})
}
