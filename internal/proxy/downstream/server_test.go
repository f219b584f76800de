package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %q %v", r.Method, r.RequestURI, body, err)
}

// TestPipelining: requests that come at once are answered in their order, whatever their bodies.
func TestPipelining(t *testing.T) {
	said := answerTo(t, serverOf(echo), "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"+
		"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+
		"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+ending)
	c := http1.Replay(said)
	for _, want := range []string{`GET /1 "" <nil>`, `POST /2 "abc" <nil>`, `POST /3 "abc" <nil>`, `GET / "" <nil>`} {
		if r, body := c.Response(t, "GET"); body != want || r.Close != (want == `GET / "" <nil>`) {
			t.Errorf("%s %q, close %t, want %q", r.Status, body, r.Close, want)
		}
	}
	if c.In.Buffered() > 0 {
		t.Errorf("then came %q", said)
	}
}

// TestRefused: the status is told, once, and ends the connection.
func TestRefused(t *testing.T) {
	for text, want := range map[string]int{
		"GET / HTTP/1.1\r\n\r\n" + ending:                                400,
		"\x16\x03\x01\x02\x00\x01":                                       400,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10): 431,
		"PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n\r\n":                   505,
	} {
		told := 0
		s := serverOf(func(http.ResponseWriter, *http.Request) { t.Errorf("%.40q is given to the handler", text) },
			func(s *Server) { s.Refused = func(status int) { told = 100*told + status } })
		said := answerTo(t, s, text)
		r, body := http1.Replay(said).Response(t, "GET")
		if r.StatusCode != want || told != want || body != fmt.Sprintf("%d %s\n", want, http.StatusText(want)) || !r.Close {
			t.Errorf("%.40q is answered %q, and %d is told", text, said, told)
		}
	}
}

// TestTimes: how long a head and the pause before it may take.
func TestTimes(t *testing.T) {
	for _, test := range []struct {
		name string
		// first says whether it is before the first request, text is what comes, and then nothing.
		first bool
		text  string
		after time.Duration
		said  string
	}{
		{"nothing comes", true, "", 10 * time.Second, ""},
		{"some comes", true, "GET / HTTP/1.1\r\nHost: a\r\n", 10 * time.Second, "HTTP/1.1 408 Request Timeout\r\n"},
		{"no other comes", false, "", 75 * time.Second, ""},
		{"some of another comes", false, "G", 10 * time.Second, "HTTP/1.1 408 Request Timeout\r\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := served(t, serverOf(echo, func(s *Server) { s.Head, s.Idle = 10*time.Second, 75*time.Second }))
			if !test.first {
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				c.Response(t, "GET")
			}
			begun := time.Now()
			if test.text != "" {
				io.WriteString(c, test.text)
			}
			said, _ := io.ReadAll(c.In)
			if took := time.Since(begun); took < test.after || took > test.after+test.after/20 || !strings.HasPrefix(string(said), test.said) || test.said == "" && len(said) > 0 {
				t.Errorf("%s: after %v it says %q", test.name, took, said)
			}
		})
	}
}

// TestSlowHead: the time of a head is that of all of it, and none of it that of the pause before.
func TestSlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(echo, func(s *Server) { s.Head, s.Idle = 10*time.Second, time.Minute }))
		for range 3 {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n")
			time.Sleep(9 * time.Second)
			io.WriteString(c, "\r\n")
			if r, _ := c.Response(t, "GET"); r.StatusCode != 200 {
				t.Fatal(r.Status)
			}
			time.Sleep(50 * time.Second)
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n")
		for range 2 {
			time.Sleep(4 * time.Second)
			io.WriteString(c, "X: y\r\n")
		}
		time.Sleep(3 * time.Second)
		begun := time.Now()
		if said, _ := io.ReadAll(c.In); !strings.HasPrefix(string(said), "HTTP/1.1 408") || time.Since(begun) > 0 {
			t.Errorf("%v too late it says %q", time.Since(begun), said)
		}
	})
}

// TestSlowBody: no time of a pause or of a head holds for a body.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(echo, func(s *Server) { s.Head, s.Idle = time.Second, time.Second }))
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
		time.Sleep(time.Hour)
		say(c, "abc")
		if r, body := c.Response(t, "POST"); body != `POST / "abc" <nil>` {
			t.Errorf("%s %q", r.Status, body)
		}
	})
}

// TestPauses: each has its time, whatever came before it.
func TestPauses(t *testing.T) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
		"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
		"GET /watched HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
				switch r.RequestURI {
				case "/unread":
					return
				case "/watched":
					r.Context().Done()
				}
				echo(w, r)
			}, func(s *Server) { s.Idle = time.Minute }))
			for range 3 {
				say(c, text)
				if r, _ := c.Response(t, "POST"); r.StatusCode != 200 || r.Close {
					t.Fatalf("%.20q: %s, close %t", text, r.Status, r.Close)
				}
			}
			begun := time.Now()
			if rest, _ := io.ReadAll(c.In); len(rest) > 0 || time.Since(begun) > time.Minute+2*time.Second {
				t.Errorf("%.20q: after %v came %q", text, time.Since(begun), rest)
			}
		})
	}
}

// TestHTTP2: whoever speaks it without TLS is given back with all that has come, in whatever pieces; and who begins like
// it is not.
func TestHTTP2(t *testing.T) {
	for _, size := range []int{1, 10, 18, 23, 24, 100} {
		client, server := net.Pipe()
		text := string(preface) + "rest"
		go func() {
			io.Copy(client, http1.Pieces(text, size))
			client.Close()
		}()
		early, err := serverOf(echo).Serve(context.Background(), server, nil)
		more, _ := io.ReadAll(server)
		if !errors.Is(err, ErrHTTP2) || string(early)+string(more) != text || len(early) < len(preface) {
			t.Errorf("in pieces of %d: %q and %q, %v", size, early, more, err)
		}
	}
	if said := answerTo(t, serverOf(echo), "PROPFIND / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasSuffix(said, `PROPFIND / "" <nil>`+"\r\n0\r\n\r\n") {
		t.Errorf("PROPFIND is answered %q", said)
	}
}

// TestRest: a body that the handler does not want is read for the sake of the next request if it is small, and its
// client does not wait to be told so. Otherwise the connection ends with the answer.
func TestRest(t *testing.T) {
	for _, test := range []struct {
		framing, body string
		close         bool
	}{
		{"Content-Length: 3\r\n", "abc", false},
		{"Content-Length: 4\r\nExpect: 100-continue\r\n", "", true},
		{fmt.Sprintf("Content-Length: %d\r\n", maxRest), strings.Repeat("x", maxRest), false},
		{fmt.Sprintf("Content-Length: %d\r\n", maxRest+1), strings.Repeat("x", maxRest+1), true},
		{"Transfer-Encoding: chunked\r\n", "0\r\n\r\n", true},
		{"Content-Length: 3\r\nExpect: 100-continue\r\n", "", true},
	} {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) { w.Header()["Content-Length"] = []string{"0"} }))
		say(c, "POST / HTTP/1.1\r\nHost: a\r\n"+test.framing+"\r\n"+test.body+ending)
		if r, _ := c.Response(t, "POST"); r.StatusCode != 200 || r.Close != test.close {
			t.Errorf("%s: %s, close %t", test.framing, r.Status, r.Close)
		}
		if test.close {
			if rest, _ := io.ReadAll(c.In); len(rest) > 0 {
				t.Errorf("%s: then came %q", test.framing, rest)
			}
		} else if r, _ := c.Response(t, "GET"); r.StatusCode != 200 || !r.Close {
			t.Errorf("%s: the next one is answered %s", test.framing, r.Status)
		}
	}
	// One that was begun, and one that does not come in time.
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) { io.ReadFull(r.Body, make([]byte, 1)) }))
		say(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+ending)
		if r, _ := c.Response(t, "POST"); !r.Close {
			t.Error("a body is left in the middle")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(http.ResponseWriter, *http.Request) {}, func(s *Server) { s.Rest = 30 * time.Second }))
		say(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
		begun := time.Now()
		if r, _ := c.Response(t, "POST"); r.StatusCode != 200 || r.Close {
			t.Errorf("%s, close %t", r.Status, r.Close)
		}
		if rest, _ := io.ReadAll(c.In); len(rest) > 0 || time.Since(begun) != 30*time.Second {
			t.Errorf("after %v came %q", time.Since(begun), rest)
		}
	})
	// One after another that was read.
	said := answerTo(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/read" {
			echo(w, r)
		}
	}), "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+ending)
	if strings.Count(said, "HTTP/1.1 200") != 3 {
		t.Errorf("it says %q", said)
	}
	// Where no other request follows, nothing is waited for.
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(http.ResponseWriter, *http.Request) {}, func(s *Server) { s.Rest = 30 * time.Second }))
		say(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nab")
		begun := time.Now()
		if said, _ := io.ReadAll(c.In); !strings.HasPrefix(string(said), "HTTP/1.1 200") || time.Since(begun) > 0 {
			t.Errorf("after %v it says %q", time.Since(begun), said)
		}
	})
}

// TestPanic: it is logged unless it says not to be, what was written is sent, and the connection ends.
func TestPanic(t *testing.T) {
	for _, why := range []any{http.ErrAbortHandler, "a mistake"} {
		var logged bytes.Buffer
		s := serverOf(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"10"}
			io.WriteString(w, "some")
			panic(why)
		}, func(s *Server) { s.ErrorLog = log.New(&logged, "", 0) })
		if said := answerTo(t, s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+ending); !strings.HasSuffix(said, "\r\n\r\nsome") {
			t.Errorf("%v: it says %q", why, said)
		}
		if text := logged.String(); strings.Contains(text, "a mistake") != (why == "a mistake") || why == http.ErrAbortHandler && text != "" {
			t.Errorf("%v: logged is %q", why, text)
		}
	}
}

// TestStates: what is told of a connection.
func TestStates(t *testing.T) {
	var mu sync.Mutex
	var states []http.ConnState
	s := serverOf(echo, func(s *Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, state)
		}
	})
	client, server := net.Pipe()
	go func() {
		io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+ending)
	}()
	go io.Copy(io.Discard, client)
	s.Serve(context.Background(), server, nil)
	if got := fmt.Sprint(states); got != "[active idle active closed]" {
		t.Errorf("states are %s", got)
	}
}

// held is how many bytes of memory are in use.
func held() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIdleHoldsLittle: a connection that waits has let go of its request, of the answer and of its buffers, with a socket
// of which there is a descriptor and without.
func TestIdleHoldsLittle(t *testing.T) {
	for name, served := range map[string]func(testing.TB, *Server) *http1.Session{"pipe": served, "socket": servedOnSocket} {
		t.Run(name, func(t *testing.T) { holdsLittle(t, served) })
	}
}

func holdsLittle(t *testing.T, served func(testing.TB, *Server) *http1.Session) {
	const each, n = 60 << 10, 200
	s := serverOf(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = []string{"0"}
		text := strings.Repeat("x", each) + "X-Name"
		w.Header()[text[each:]] = []string{""}
	})
	for _, rest := range []string{"\r\n", "Content-Length: 1\r\n\r\nx"} {
		before := held()
		for range n {
			c := served(t, s)
			say(c, "POST /"+strings.Repeat("x", each/2)+" HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", each/2)+"\r\n"+rest)
			if r, _ := c.Response(t, "POST"); r.StatusCode != 200 {
				t.Fatal(r.Status)
			}
		}
		if more := int64(held()) - int64(before); more > n*(6<<10) {
			t.Errorf("with %q each connection holds %d bytes", rest, more/n)
		}
	}
}

// TestIdleHoldsFewFields: a connection that waits has no room for as many fields as its last request or answer had.
func TestIdleHoldsFewFields(t *testing.T) {
	const n, many = 200, 900
	var fields strings.Builder
	for i := range many {
		fmt.Fprintf(&fields, "X-%d: y\r\n", i)
	}
	s := serverOf(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Length"] = []string{"0"}
		if r.RequestURI == "/many" {
			for i := range many {
				w.Header()["X-"+strconv.Itoa(i)] = []string{""}
			}
		}
	})
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n" + fields.String() + "\r\n", "GET /many HTTP/1.1\r\nHost: a\r\n\r\n"} {
		before := held()
		for range n {
			c := served(t, s)
			say(c, text)
			if r, _ := c.Response(t, "GET"); r.StatusCode != 200 {
				t.Fatal(r.Status)
			}
		}
		if more := int64(held()) - int64(before); more > n*many*30 {
			t.Errorf("%.10q: each connection holds %d bytes", text, more/n)
		}
	}
}
