package downstream

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serverOf has its bounds, and no time-outs.
func serverOf(h http.HandlerFunc, change ...func(*Server)) *Server {
	s := &Server{
		Handler: h, HeadBytes: 64 << 10, Begun: func(net.Conn) {}, ConnState: func(net.Conn, http.ConnState) {}, Refused: func(int) {},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	for _, do := range change {
		do(s)
	}
	return s
}

// served is a client's end of a connection in memory, which is served until the test ends.
func served(t testing.TB, s *Server) *http1.Session {
	t.Helper()
	return servedIn(t, context.Background(), s)
}

// servedOnSocket is one of TCP.
func servedOnSocket(t testing.TB, s *Server) *http1.Session {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, context.Background(), s, client, server)
}

func servedIn(t testing.TB, ctx context.Context, s *Server) *http1.Session {
	t.Helper()
	client, server := net.Pipe()
	return serveOn(t, ctx, s, client, server)
}

func serveOn(t testing.TB, ctx context.Context, s *Server, client, server net.Conn) *http1.Session {
	done := make(chan bool)
	go func() {
		s.Serve(ctx, server, nil)
		close(done)
	}()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return &http1.Session{Conn: client, In: bufio.NewReader(client)}
}

// say sends a text while nobody need take it.
func say(c *http1.Session, text string) {
	go io.WriteString(c.Conn, text)
}

// answerTo is what a server says to a text until it ends the connection.
func answerTo(t testing.TB, s *Server, text string) string {
	t.Helper()
	c := served(t, s)
	say(c, text)
	said, _ := io.ReadAll(c.In)
	return string(said)
}

// ending has the connection end with the answer.
const ending = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// undated takes Date away, which is another each time.
func undated(t testing.TB, text string) string {
	t.Helper()
	before, after, found := strings.Cut(text, "Date: ")
	if !found {
		t.Fatalf("%q has no Date", text)
	}
	date, after, _ := strings.Cut(after, "\r\n")
	if at, err := http.ParseTime(date); err != nil || time.Since(at) > time.Minute {
		t.Errorf("Date is %q", date)
	}
	return before + after
}
