package downstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestGone: whoever asks hears that the client has gone, with a body and without, and also while it is read.
func TestGone(t *testing.T) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		asked, gone := make(chan bool), make(chan error, 1)
		c := served(t, serverOf(func(_ http.ResponseWriter, r *http.Request) {
			done := r.Context().Done()
			io.Copy(io.Discard, r.Body)
			close(asked)
			<-done
			gone <- r.Context().Err()
		}))
		say(c, text)
		<-asked
		c.Close()
		if err := <-gone; err != context.Canceled {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestGoneLate: who leaves is missed also when the time of a head, or of a pause, would be over.
func TestGoneLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		c := served(t, serverOf(func(_ http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			<-r.Context().Done()
			took = time.Since(begun)
		}, func(s *Server) { s.Head, s.Idle = time.Second, time.Second }))
		say(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(time.Minute)
		c.Close()
		synctest.Wait()
		if took != time.Minute {
			t.Errorf("it is missed after %v", took)
		}
	})
}

// TestGoneMeanwhile: whoever reads the body finds that the client has gone, and all others hear it. That a body is late or
// malformed is no end.
func TestGoneMeanwhile(t *testing.T) {
	for _, test := range []struct {
		text, more string
		gone       bool
	}{
		{"Content-Length: 4\r\n\r\nso", "", true},
		{"Transfer-Encoding: chunked\r\n\r\n4\r\nso", "", true},
		{"Transfer-Encoding: chunked\r\n\r\n", "x\r\n", false},
		{"Content-Length: 4\r\n\r\nso", "late", false},
	} {
		gone := make(chan error, 1)
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			if test.more == "late" {
				w.(interface{ SetReadDeadline(time.Time) error }).SetReadDeadline(longAgo)
			}
			io.Copy(io.Discard, r.Body)
			gone <- r.Context().Err()
		}))
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\n"+test.text)
		if test.more == "" {
			c.Close()
		}
		say(c, test.more)
		if err := <-gone; (err != nil) != test.gone {
			t.Errorf("%q and %q: %v", test.text, test.more, err)
		}
	}
}

// TestLife: contexts of requests end with that of the connection, and have its values.
func TestLife(t *testing.T) {
	type key struct{}
	ctx, end := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	s := serverOf(func(_ http.ResponseWriter, r *http.Request) {
		if r.Context().Value(key{}) != "value" {
			t.Error("the value is not there")
		}
		end()
		<-r.Context().Done()
		if err := context.Cause(r.Context()); err != context.Canceled {
			t.Error(err)
		}
	})
	c := servedIn(t, ctx, s)
	say(c, ending)
	c.Response(t, "GET")
}

// TestWatched: a request that comes while somebody looks for the client's end is answered like any other, and so is one
// that comes after that.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
				t.Error("the client has not gone")
			case <-time.After(time.Second):
			}
			echo(w, r)
		}, func(s *Server) { s.Head, s.Idle = time.Second/2, time.Minute }))
		for range 3 {
			say(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
			time.Sleep(time.Second / 2)
			say(c, "GET /2 HTTP/1.1\r\nHost: a\r\n\r\nPOST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			for _, want := range []string{`GET /1 "" <nil>`, `GET /2 "" <nil>`, `POST /3 "abc" <nil>`} {
				if r, body := c.Response(t, "GET"); body != want {
					t.Errorf("%s %q, want %q", r.Status, body, want)
				}
			}
			time.Sleep(50 * time.Second)
		}
		begun := time.Now()
		if rest, _ := io.ReadAll(c.In); len(rest) > 0 || time.Since(begun) > 15*time.Second {
			t.Errorf("after %v came %q", time.Since(begun), rest)
		}
	})
}

// TestAskedTooLate: who asks when the handler has returned, as contexts do that were made of the request's, reads none
// of the next request.
func TestAskedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last context.Context
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			last = r.Context()
			echo(w, r)
		}))
		for range 3 {
			// Of two that read the one gets the first half, the other the second.
			io.WriteString(c, "GET / HTTP/1.1\r\nHost:")
			say(c, " a\r\n\r\n")
			c.Response(t, "GET")
			synctest.Wait()
			last.Done()
			synctest.Wait()
		}
	})
}

// TestAskedBeforeBody: who asks while the body is to come reads none of it.
func TestAskedBeforeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := served(t, serverOf(func(w http.ResponseWriter, r *http.Request) {
			r.Context().Done()
			echo(w, r)
		}))
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
		synctest.Wait()
		io.WriteString(c, "so")
		io.WriteString(c, "me")
		if r, body := c.Response(t, "POST"); body != `POST / "some" <nil>` {
			t.Errorf("%s %q", r.Status, body)
		}
	})
}

// kept counts who is to be told of its end.
type kept struct {
	context.Context
	end chan struct{}
	now int
}

func (k *kept) Done() <-chan struct{} { return k.end }

func (k *kept) AfterFunc(func()) (stop func() bool) {
	k.now++
	return func() bool {
		k.now--
		return true
	}
}

// TestLifeForgets: a life that goes on holds no connection that has ended.
func TestLifeForgets(t *testing.T) {
	k := &kept{Context: context.Background(), end: make(chan struct{})}
	client, server := net.Pipe()
	client.Close()
	serverOf(echo).Serve(k, server, nil)
	if k.now != 0 {
		t.Errorf("%d are to be told", k.now)
	}
}
