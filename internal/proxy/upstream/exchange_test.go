package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

func decimal(n int) string { return strconv.Itoa(n) }

func chunk(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(s), s)
}

// moment is what short bounds everything by: what is to come sooner comes much sooner.
const moment = 250 * time.Millisecond

func short(o *Options) { o.Head, o.Progress, o.Continue = moment, moment, moment }

// waited is when more has passed than short bounds.
func waited() <-chan time.Time { return time.After(2 * moment) }

func TestTimeOuts(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		during       Phase
	}{
		{"nothing", "", AwaitingHead},
		{"some of a head", ok, AwaitingHead},
		{"informational only", "HTTP/1.1 103 Early Hints\r\n\r\n", AwaitingHead},
		{"some of a body", ok + five + "\r\nhell", ReadingBody},
		{"some of a chunk", ok + te + "\r\n5\r\nhell", ReadingBody},
		{"no end", ok + "\r\nhello", ReadingBody},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := listen(t, func(s *http1.Session) { s.Head(); s.Say(test.answer); s.Hold() })
			failing(t, client(t, s.key, short), get(), TimedOut, test.during)
			q := get()
			q.Deadline = time.Now().Add(moment)
			failing(t, client(t, s.key), q, TimedOut, test.during)
		})
	}
}

// TestLostAtOnce: a new connection that is lost before anything was written is no idle one that the endpoint had closed: it
// is not made again here, but told.
func TestLostAtOnce(t *testing.T) {
	const times = 2000
	s := listen(t, func(s *http1.Session) { s.Reset() })
	p := client(t, s.key)
	unwritten := 0
	for range times {
		g, _ := exchange(t, p, get())
		if g.err == nil {
			t.Fatalf("answered is %d", g.status)
		}
		if g.err.Class == NotWritten {
			unwritten++
		}
	}
	if n := s.Connections(); n > times {
		t.Errorf("%d requests made %d connections", times, n)
	}
	t.Logf("%d of %d were not written", unwritten, times)
}

// TestCallersAreNotLate: an endpoint is not late where the caller takes its time between two parts.
func TestCallersAreNotLate(t *testing.T) {
	const size = 256 << 10
	s := listen(t, func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 200 OK\r\nContent-Length: " + decimal(size) + "\r\n\r\n" + strings.Repeat("x", size))
		s.Hold()
	})
	var r Response
	if err := client(t, s.key, short).Do(context.Background(), get(), &r); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	piece := make([]byte, size/4)
	for left := size; left > 0; {
		<-waited()
		n, err := r.Read(piece)
		if left -= n; err != nil && (err != io.EOF || left > 0) {
			t.Fatalf("%v, with %d bytes to come", err, left)
		}
	}
}

// TestSlowIsNotLate: each part may take as long as the last, and more than patience.
func TestSlowIsNotLate(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
		for range 3 {
			<-time.After(patience * 3 / 2)
			s.Say("x")
		}
		s.Hold()
	})
	fine(t, client(t, s.key, func(o *Options) { o.Progress = time.Minute }), get(), "xxx")
	fine(t, client(t, s.key, func(o *Options) { o.Progress, o.Head = 0, 0 }), get(), "xxx")
}

func TestCanceled(t *testing.T) {
	for name, answer := range map[string]string{"before the head": "", "within the body": ok + five + "\r\nhell"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			s := listen(t, func(s *http1.Session) { s.Head(); s.Say(answer); cancel(); s.Hold() })
			var r Response
			err := client(t, s.key).Do(ctx, get(), &r)
			if err == nil {
				_, err = io.ReadAll(&r)
				r.Close()
			}
			var failed *Error
			if !errors.As(err, &failed) || failed.Class != Canceled || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCancelLater: a context that ends after its exchange does no harm to the next one.
func TestCancelLater(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		for s.Head() != "" {
			<-time.After(patience * 5 / 2)
			s.Say(hello)
		}
	})
	p := client(t, s.key)
	ctx, cancel := context.WithCancel(context.Background())
	var r Response
	if err := p.Do(ctx, get(), &r); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, &r)
	r.Close()
	cancel()
	fine(t, p, get(), "hello")
	if n := s.Connections(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// TestCloseBeforeTheEnd: a response that was not read to its end is no beginning of the next.
func TestCloseBeforeTheEnd(t *testing.T) {
	s := listen(t, answering(hello))
	p := client(t, s.key)
	var r Response
	for range 2 {
		if err := p.Do(context.Background(), get(), &r); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 3)); n != 3 || err != nil {
			t.Fatalf("read %d bytes (%v)", n, err)
		}
		if !r.Ready() {
			t.Error("two bytes are there, and it is not ready")
		}
		r.Close()
		r.Close()
		if n, err := r.Read(make([]byte, 3)); n != 0 || !errors.Is(err, net.ErrClosed) || r.Ready() {
			t.Errorf("read %d bytes after Close (%v)", n, err)
		}
	}
	if n := s.Connections(); n != 2 {
		t.Errorf("there were %d connections", n)
	}
}

// TestReadDoesNotWait: what has come is given before more is waited for, and the end with the last byte.
func TestReadDoesNotWait(t *testing.T) {
	for name, parts := range map[string][2]string{
		"length":       {ok + "Content-Length: 10\r\n\r\nhello", "world"},
		"chunked":      {ok + te + "\r\n" + chunk("hel") + chunk("lo"), chunk("world") + "0\r\n\r\n"},
		"within sizes": {ok + te + "\r\n" + chunk("hello") + "5", "\r\nworld\r\n0\r\n\r\n"},
		"before ends":  {ok + te + "\r\n5\r\nhello\r", "\n" + chunk("world") + "0\r\n\r\n"},
		"last chunk":   {ok + te + "\r\n" + chunk("hello") + "0\r\nX: ", "y\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			s := listen(t, func(s *http1.Session) { s.Head(); s.Say(parts[0]); <-next; s.Say(parts[1]); s.Hold() })
			var r Response
			if err := client(t, s.key).Do(context.Background(), get(), &r); err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p := make([]byte, 5)
			if n, err := io.ReadFull(&r, p); err != nil || string(p) != "hello" {
				t.Fatalf("read %q (%v)", p[:n], err)
			}
			close(next)
			want := "world"
			if name == "last chunk" {
				want = ""
			}
			if rest, err := io.ReadAll(&r); err != nil || string(rest) != want {
				t.Errorf("then %q (%v)", rest, err)
			}
		})
	}
	s := listen(t, answering(ok+te+"\r\n"+chunk("hello")+"0\r\n\r\n"))
	var r Response
	if err := client(t, s.key).Do(context.Background(), get(), &r); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 100)); n != 5 || err != io.EOF {
		t.Errorf("read %d bytes (%v), want all and the end", n, err)
	}
	r.Close()
}

func TestUpgrade(t *testing.T) {
	s := listen(t, func(s *http1.Session) {
		s.Head()
		s.Say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\nearly")
		echo := make([]byte, 5)
		io.ReadFull(s.In, echo)
		s.Say(string(echo))
	})
	p := client(t, s.key)
	q := get()
	q.Head.Upgrade("websocket")
	ctx, cancel := context.WithCancel(context.Background())
	var r Response
	if err := p.Do(ctx, q, &r); err != nil || r.Status != http.StatusSwitchingProtocols {
		t.Fatalf("got %d (%v)", r.Status, err)
	}
	conn, early := r.TakeOver()
	defer conn.Close()
	cancel()
	r.Close()
	for len(early) < 5 {
		b := make([]byte, 5-len(early))
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		early = append(early, b[:n]...)
	}
	if string(early) != "early" {
		t.Errorf("early came %q", early)
	}
	// It is nobody else's, and has no deadline of before.
	<-time.After(3 * patience)
	if _, err := io.WriteString(conn, "later"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || string(rest) != "later" {
		t.Errorf("then came %q (%v)", rest, err)
	}
	if p.Idle() != 0 || p.Open() != 0 {
		t.Errorf("%d are idle, of %d", p.Idle(), p.Open())
	}
}

// TestUpgradeRefused: what is not switched is a response as any.
func TestUpgradeRefused(t *testing.T) {
	for answer, want := range map[string]Class{
		hello: 0,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n": Malformed,
		"HTTP/1.1 101 Switching Protocols\r\n\r\n":                 Malformed,
	} {
		s := listen(t, answering(answer))
		q := get()
		q.Head.Upgrade("websocket")
		if g, _ := exchange(t, client(t, s.key), q); (g.err == nil) != (want == 0) || g.err != nil && g.err.Class != want {
			t.Errorf("%q: got %d (%v)", answer, g.status, g.err)
		}
	}
}

func TestInformational(t *testing.T) {
	s := listen(t, answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\n"+hello))
	q := get()
	var told []string
	q.Informational = func(status int, fields []message.Field) { told = append(told, fmt.Sprint(status, fields)) }
	p := client(t, s.key)
	fine(t, p, q, "hello")
	if got := strings.Join(told, ", "); got != "103 [{Link a}], 103 [{Link b}]" {
		t.Errorf("told is %s", got)
	}
	if p.Idle() != 1 || p.Open() != 1 {
		t.Errorf("%d are idle, of %d", p.Idle(), p.Open())
	}
}
