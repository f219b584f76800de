package upstream

import (
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

func TestHeads(t *testing.T) {
	for _, test := range []struct {
		method, target, host string
		length               int64
		fields               []message.Field
		upgrade              string
		// want is empty for what cannot be sent.
		want string
	}{
		{"GET", "/", "a", 0, nil, "", "GET / HTTP/1.1|Host: a||"},
		{"GET", "/a%20b?c=d", "a:80", 0, []message.Field{{Name: "X-Y", Value: "1"}, {Name: "x-y", Value: " 2 "}}, "", "GET /a%20b?c=d HTTP/1.1|Host: a:80|X-Y: 1|x-y:  2 ||"},
		{"OPTIONS", "*", "[::1]:80", 0, nil, "", "OPTIONS * HTTP/1.1|Host: [::1]:80||"},
		{"GET", "/", "", 0, nil, "", "GET / HTTP/1.1|Host: ||"},
		{"GET", "/\xc3\xa9", "a", 0, nil, "", "GET /\xc3\xa9 HTTP/1.1|Host: a||"},
		{"POST", "/", "a", 0, nil, "", "POST / HTTP/1.1|Host: a|Content-Length: 0||"},
		{"DELETE", "/", "a", 0, nil, "", "DELETE / HTTP/1.1|Host: a||"},
		{"PUT", "/", "a", 12, nil, "", "PUT / HTTP/1.1|Host: a|Content-Length: 12||"},
		{"GET", "/", "a", 3, nil, "", "GET / HTTP/1.1|Host: a|Content-Length: 3||"},
		{"POST", "/", "a", -1, []message.Field{{Name: "TE", Value: "trailers"}}, "", "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked|TE: trailers||"},
		{"GET", "/", "a", 0, nil, "websocket", "GET / HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: websocket||"},
		{"GET", "/", "a", 0, nil, "a/1.0", "GET / HTTP/1.1|Host: a|Connection: Upgrade|Upgrade: a/1.0||"},

		{"", "/", "a", 0, nil, "", ""},
		{"CONNECT", "/", "a", 0, nil, "", ""},
		{"GE T", "/", "a", 0, nil, "", ""},
		{"GET\r\nX:", "/", "a", 0, nil, "", ""},
		{"GET", "", "a", 0, nil, "", ""},
		{"GET", "a", "a", 0, nil, "", ""},
		{"GET", "http://b/", "a", 0, nil, "", ""},
		{"GET", "/?a b HTTP/1.1", "a", 0, nil, "", ""},
		{"GET", "/\r\nX: y", "a", 0, nil, "", ""},
		{"GET", "/\x00", "a", 0, nil, "", ""},
		{"GET", "/\x7f", "a", 0, nil, "", ""},
		{"GET", "/", "a b", 0, nil, "", ""},
		{"GET", "/", "a\r\nX: y", 0, nil, "", ""},
		{"GET", "/", "a,b", 0, nil, "", ""},
		{"GET", "/", "u@a", 0, nil, "", ""},
		{"GET", "/", "a/b", 0, nil, "", ""},
		{"GET", "/", "a", -2, nil, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X Y", Value: "1"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "", Value: "1"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X:", Value: "1"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X", Value: "a\r\nb"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X", Value: "a\nb"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X", Value: "a\rb"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "X", Value: "a\x00b"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "Content-Length", Value: "0"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "transfer-encoding", Value: "chunked"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "host", Value: "b"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "connection", Value: "close"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "UPGRADE", Value: "h2c"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "Keep-Alive", Value: "1"}}, "", ""},
		{"GET", "/", "a", 0, []message.Field{{Name: "Proxy-Connection", Value: "close"}}, "", ""},
		{"GET", "/", "a", 0, nil, "h2c", ""},
		{"GET", "/", "a", 0, nil, "H2C", ""},
		{"GET", "/", "a", 0, nil, "a, b", ""},
		{"GET", "/", "a", 0, nil, "a\r\nX: y", ""},
	} {
		h := Head{buf: []byte("what was there before")}
		h.Start(test.method, test.target, test.host, test.length)
		for _, f := range test.fields {
			h.Add(f.Name, f.Value)
		}
		if test.upgrade != "" {
			h.Upgrade(test.upgrade)
		}
		got := strings.ReplaceAll(string(h.text()), "\r\n", "|")
		switch {
		case (h.err == nil) != (test.want != ""):
			t.Errorf("%+v: %q, %v", test, got, h.err)
		case h.err == nil && got != test.want:
			t.Errorf("got %q, want %q", got, test.want)
		case h.err == nil && string(h.text()) != strings.ReplaceAll(test.want, "|", "\r\n"):
			t.Errorf("the second time it is %q", h.text())
		}
	}
}

// TestInvalidIsNotSent: what does not fit together does not reach the endpoint.
func TestInvalidIsNotSent(t *testing.T) {
	s := listen(t, answering(hello))
	p := client(t, s.key)
	with := func(q *Request, change func(q *Request)) *Request { change(q); return q }
	for name, q := range map[string]*Request{
		"no head":              {Head: &Head{}},
		"a wrong head":         request("GET", "/ /", 0),
		"no body":              request("POST", "/", 5),
		"a short body":         with(request("POST", "/", 5), func(q *Request) { q.Body = []byte("four") }),
		"a body of no length":  with(request("POST", "/", -1), func(q *Request) { q.Body = []byte("four") }),
		"a body too many":      with(get(), func(q *Request) { q.Body = []byte("four") }),
		"a stream too many":    with(get(), func(q *Request) { q.Stream = strings.NewReader("four") }),
		"two bodies":           with(request("POST", "/", 4), func(q *Request) { q.Body, q.Stream = []byte("four"), strings.NewReader("four") }),
		"an upgrade of a body": with(request("POST", "/", 4), func(q *Request) { q.Head.Upgrade("websocket"); q.Body = []byte("four") }),
	} {
		t.Run(name, func(t *testing.T) { failing(t, p, q, Invalid, Sending) })
	}
	if n := s.Connections(); n != 0 {
		t.Errorf("there were %d connections", n)
	}
}
