package downstream

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnswers: what is written, for what handlers do.
func TestAnswers(t *testing.T) {
	const get, old = ending, "GET / HTTP/1.0\r\nHost: a\r\n\r\n"
	sized := func(status int, length, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{length}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	trailing := func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Trailer"] = []string{"X-A"}
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		io.WriteString(w, strings.Repeat("x", 17))
		w.Header()[http.TrailerPrefix+"X-A"] = []string{"1", "a\r\nb"}
	}
	for _, test := range []struct {
		name, request string
		handler       http.HandlerFunc
		want          string
	}{
		{"nothing", get, func(http.ResponseWriter, *http.Request) {}, "200 OK|Content-Length: 0|Connection: close||"},
		{"a length", get, sized(201, "4", "some"), "201 Created|Content-Length: 4|Connection: close||some"},
		{"less than its length", get, sized(200, "5", "some"), "200 OK|Content-Length: 5|Connection: close||some"},
		{"more than its length", get, sized(200, "3", "some"), "200 OK|Content-Length: 3|Connection: close||"},
		{"a length that is none", get, sized(200, "-3", "some"), "200 OK|Transfer-Encoding: chunked|Connection: close||4|some|0||"},
		{"no length", get, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "some") }, "200 OK|Transfer-Encoding: chunked|Connection: close||4|some|0||"},
		{"nothing in between", get, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "so")
			io.WriteString(w, "")
			io.WriteString(w, "me")
		}, "200 OK|Transfer-Encoding: chunked|Connection: close||2|so|2|me|0||"},
		{"no length of HTTP/1.0", old, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "some") }, "200 OK|Connection: close||some"},
		{"a length of HTTP/1.0", old, sized(200, "4", "some"), "200 OK|Content-Length: 4|Connection: close||some"},
		{"HEAD", strings.Replace(get, "GET", "HEAD", 1), sized(200, "4", "some"), "200 OK|Content-Length: 4|Connection: close||"},
		{"204", get, sized(204, "4", "some"), "204 No Content|Connection: close||"},
		{"304", get, sized(304, "4", "some"), "304 Not Modified|Content-Length: 4|Connection: close||"},
		{"an unknown status", get, sized(299, "0", ""), "299 |Content-Length: 0|Connection: close||"},
		{"a trailer", get, trailing, "200 OK|Trailer: X-A|Transfer-Encoding: chunked|Connection: close||4|some|11|" + strings.Repeat("x", 17) + "|0|X-A: 1||"},
		{"a trailer of HTTP/1.0", old, trailing, "200 OK|Connection: close||some" + strings.Repeat("x", 17)},
		{"fields", get, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["X-B"], h["X-A"] = []string{"1", "2"}, []string{""}
			h["X-C"], h["X D"], h["X-E"] = []string{"a\r\nX-Evil: b", "fine"}, []string{"x"}, nil
			h["Transfer-Encoding"], h["Content-Length"] = []string{"chunked"}, []string{"0"}
		}, "200 OK|Content-Length: 0|X-A: |X-B: 1|X-B: 2|X-C: fine|Connection: close||"},
		{"informational", get, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Link"] = []string{"a"}
			w.WriteHeader(103)
			w.WriteHeader(100)
			w.Header()["Link"] = nil
			sized(200, "0", "")(w, nil)
			w.WriteHeader(500)
		}, "103 Early Hints|Link: a||HTTP/1.1 200 OK|Content-Length: 0|Connection: close||"},
	} {
		said := undated(t, answerTo(t, serverOf(test.handler), test.request))
		if got, fine := strings.CutPrefix(strings.ReplaceAll(said, "\r\n", "|"), "HTTP/1.1 "); !fine || got != test.want {
			t.Errorf("%s:\n%q, want\n%q", test.name, got, test.want)
		}
	}
}

// TestDateOfOthers: one that the handler has is left.
func TestDateOfOthers(t *testing.T) {
	said := answerTo(t, serverOf(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = []string{"x"} }), ending)
	if strings.Count(said, "Date: ") != 1 || !strings.Contains(said, "Date: x\r\n") {
		t.Error(said)
	}
}

// TestDate: it is that of the second.
func TestDate(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for range 2 {
		if got, want := date(now), now.Format(http.TimeFormat); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
		now = now.Add(time.Second)
	}
}

// TestCloses: a handler may have its answer be the last.
func TestCloses(t *testing.T) {
	said := answerTo(t, serverOf(func(w http.ResponseWriter, _ *http.Request) { w.Header()["Connection"] = []string{"close"} }), strings.Replace(ending, "Connection: close\r\n", "", 1)+ending)
	if strings.Count(said, "HTTP/1.1 200") != 1 || strings.Count(said, "Connection: close\r\n") != 1 {
		t.Error(said)
	}
}

// TestShort: where less was written than said, no other answer follows.
func TestShort(t *testing.T) {
	said := answerTo(t, serverOf(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = []string{"2"}
		io.WriteString(w, "x")
	}), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+ending)
	if strings.Count(said, "HTTP/1.1 200") != 1 {
		t.Error(said)
	}
}

// TestContinue: a client that waits is told to go on once its body is wanted, once, and never after an answer.
func TestContinue(t *testing.T) {
	const waits = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
	for _, first := range []bool{true, false} {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			if first {
				w.WriteHeader(100)
				w.WriteHeader(100)
			}
			echo(w, r)
		}))
		say(c, waits)
		if head := c.Head(); head != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Errorf("first comes %q", head)
		}
		say(c, "some")
		if r, body := c.Response(t, "POST"); body != `POST / "some" <nil>` {
			t.Errorf("%s %q", r.Status, body)
		}
	}
	said := answerTo(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(403)
		w.(http.Flusher).Flush()
		r.Body.Read(make([]byte, 1))
	}), waits+"some")
	if strings.Contains(said, "100 Continue") || !strings.HasPrefix(said, "HTTP/1.1 403") {
		t.Error(said)
	}
}

// TestBothWays: an answer goes on while the body comes, also where somebody else reads that.
func TestBothWays(t *testing.T) {
	c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
		read := make(chan string)
		go func() {
			defer close(read)
			for p := make([]byte, 1); ; {
				n, err := r.Body.Read(p)
				if err != nil {
					return
				}
				read <- string(p[:n])
			}
		}()
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		for s := range read {
			io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	}))
	say(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	r, err := http.ReadResponse(c.In, nil)
	if err != nil || !r.Close {
		t.Fatal(r, err)
	}
	for _, s := range []string{"a", "b", "c"} {
		say(c, "1\r\n"+s+"\r\n")
		p := make([]byte, 1)
		if _, err := io.ReadFull(r.Body, p); err != nil || string(p) != s {
			t.Fatalf("%q, %v", p, err)
		}
	}
	say(c, "0\r\n\r\n")
	if rest, err := io.ReadAll(r.Body); err != nil || len(rest) > 0 {
		t.Errorf("then came %q, %v", rest, err)
	}
}

// TestReadOn: a reader that a handler leaves behind ends with it, and reads none of what comes.
func TestReadOn(t *testing.T) {
	ended := make(chan error, 1)
	reading := make(chan bool)
	c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			close(reading)
			_, err := io.Copy(io.Discard, r.Body)
			_, again := r.Body.Read(make([]byte, 1))
			if again != http.ErrBodyReadAfterClose {
				t.Error(again)
			}
			ended <- err
		}()
		<-reading
	}))
	say(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nx")
	if r, _ := c.Response(t, "POST"); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	if err := <-ended; err == nil {
		t.Error("it came to an end")
	}
}

// TestHijack: who takes a connection over has what came early, no deadline, and the server lets go of it.
func TestHijack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []http.ConnState
		s := serverOf(func(w http.ResponseWriter, r *http.Request) {
			<-time.After(time.Second)
			r.Context().Done()
			c, in, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if _, _, err := w.(http.Hijacker).Hijack(); err != http.ErrHijacked {
				t.Error(err)
			}
			if n := in.Reader.Buffered(); n != len("early") {
				t.Errorf("%d bytes came early", n)
			}
			io.WriteString(c, "taken")
			said, err := io.ReadAll(in)
			if string(said) != "early and late" || err != nil {
				t.Errorf("it said %q, %v", said, err)
			}
			c.Close()
		}, func(s *Server) {
			s.Head, s.Idle = time.Second, time.Second
			s.ConnState = func(_ net.Conn, state http.ConnState) { states = append(states, state) }
		})
		c := served(t, s)
		say(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nearly")
		taken := make([]byte, len("taken"))
		if _, err := io.ReadFull(c.In, taken); err != nil || string(taken) != "taken" {
			t.Fatalf("%q, %v", taken, err)
		}
		time.Sleep(time.Hour)
		io.WriteString(c, " and late")
		c.Close()
		synctest.Wait()
		if len(states) != 2 || states[1] != http.StateHijacked {
			t.Errorf("states are %v", states)
		}
	})
	// Nobody else reads of it any more, also where somebody looked for the client's end.
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Done()
			synctest.Wait()
			c, in, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "taken")
			if said, err := io.ReadAll(in); string(said) != "late" || err != nil {
				t.Errorf("it said %q, %v", said, err)
			}
		}))
		say(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		io.ReadFull(c.In, make([]byte, len("taken")))
		io.WriteString(c, "late")
		c.Close()
		synctest.Wait()
	})
	// Not with a body that is to come, and not after an answer.
	said := answerTo(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("a connection is taken over before its body has come")
		}
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("a connection is taken over after its answer")
		}
	}), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
	if !strings.HasPrefix(said, "HTTP/1.1 200") {
		t.Error(said)
	}
}
