package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
)

const upgrade = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"

// talker switches protocols, says something with its head, and then does what a test says.
func talker(t testing.TB, early string, play func(*http1.Session)) wire.Endpoint {
	e, _ := played(t, "talker", func(s *http1.Session) {
		head := s.Head()
		if !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") || !strings.Contains(head, "Sec-Websocket-Key: x\r\n") {
			s.Say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		s.Say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n" + early)
		play(s)
	})
	return e
}

// TestUpgrade: what either side says with its head is not lost, and each end is told of the other's.
func TestUpgrade(t *testing.T) {
	heard := make(chan string, 1)
	s := serving(t, talker(t, "early", func(s *http1.Session) {
		all, _ := io.ReadAll(s.In)
		heard <- string(all)
		s.Say("late")
	}))
	c := dial(t, s, 80)
	c.Say(upgrade + "soon")
	head := c.Head()
	if !strings.HasPrefix(head, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") || !strings.Contains(head, "Sec-Websocket-Accept: y\r\n") {
		t.Fatalf("the head is %q", head)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c.In, buf); err != nil || string(buf) != "early" {
		t.Fatalf("read %q, %v", buf, err)
	}
	c.Say(" after")
	c.Conn.(interface{ CloseWrite() error }).CloseWrite()
	if got := <-heard; got != "soon after" {
		t.Errorf("the endpoint heard %q", got)
	}
	if rest, err := io.ReadAll(c.In); err != nil || string(rest) != "late" {
		t.Errorf("then came %q, %v", rest, err)
	}
	await.True(t, "nothing is under way", func() bool { return s.proxy.under.Load() == 0 })
}

// TestNoUpgrade: a protocol that is never passed on is not, and an endpoint that does not change is
// answered for as usual.
func TestNoUpgrade(t *testing.T) {
	e, heads := recording(t, hello)
	s := serving(t, e)
	for _, upgrade := range []string{"h2c", "H2c", "websocket"} {
		c := dial(t, s, 80)
		c.Say("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + upgrade + "\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		head := <-heads
		if passed := strings.Contains(head, "\r\nUpgrade: "); passed != (upgrade == "websocket") || strings.Contains(head, "Http2-Settings") {
			t.Errorf("Upgrade: %s became %q", upgrade, head)
		}
		if r, body := c.Response(t, "GET"); r.StatusCode != 200 || body != "hello" {
			t.Errorf("%s %q", r.Status, body)
		}
	}
}

// TestNoUpgradeWithBody: a request with a body is no request for another protocol: what follows it would be in doubt.
func TestNoUpgradeWithBody(t *testing.T) {
	rec := &recorder{}
	e, _ := played(t, "recorder", rec.play)
	s := serving(t, e)
	for _, body := range []string{"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"} {
		c := dial(t, s, 80)
		c.Say("POST /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n" + body)
		if r, _ := c.Response(t, "POST"); r.StatusCode != 200 {
			t.Errorf("%q: %s", body, r.Status)
		}
		// It is answered as any other, and the connection is one of HTTP still.
		c.Say("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := c.Response(t, "GET"); r.StatusCode != 200 {
			t.Errorf("%q: the next: %s", body, r.Status)
		}
		if sent := rec.taken(); strings.Contains(sent, "Upgrade") || !strings.Contains(sent, "hello") || !strings.Contains(sent, "/next") || amiss(sent) != "" {
			t.Errorf("%q: the endpoint was sent %q", body, sent)
		}
	}
}

// frame is one of WebSocket, masked or not.
func frame(payload int, masked bool) []byte {
	out := []byte{0x82}
	switch {
	case payload < 126:
		out = append(out, byte(payload))
	case payload < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 126), uint16(payload))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 127), uint64(payload))
	}
	if masked {
		out[1] |= 0x80
		out = append(out, 1, 2, 3, 4)
	}
	return append(out, bytes.Repeat([]byte{0x88}, payload)...)
}

var sizes = []int{0, 1, 5, 125, 126, 127, 300, 65535, 65536, 70000}

// TestFrames: the end of each is found, however it is cut.
func TestFrames(t *testing.T) {
	for _, masked := range []bool{false, true} {
		var all []byte
		ends := map[int]bool{}
		for _, size := range sizes {
			all = append(all, frame(size, masked)...)
			ends[len(all)] = true
		}
		for _, cut := range []int{1, 2, 3, 7, 100, 4096, len(all)} {
			var f frames
			at := 0
			for at < len(all) {
				p := all[at:min(len(all), at+cut)]
				n := f.next(p)
				if at += n; n == 0 || f.between() != ends[at] || n < len(p) && !f.between() {
					t.Fatalf("masked %t, cut by %d: at %d of %d, between %t", masked, cut, at, len(all), f.between())
				}
			}
		}
	}
}

// FuzzFrames: whatever comes, all of it is followed, and where a frame ends does not depend on the cuts.
func FuzzFrames(f *testing.F) {
	f.Add(append(frame(5, true), frame(126, false)...), byte(3))
	f.Add([]byte{0x82, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, byte(1))
	f.Fuzz(func(t *testing.T, all []byte, cut byte) {
		follow := func(cut int) (ends []int) {
			var f frames
			for at := 0; at < len(all); {
				n := f.next(all[at:min(len(all), at+cut)])
				if n <= 0 {
					t.Fatalf("nothing is taken at %d of %x", at, all)
				}
				if at += n; f.between() {
					ends = append(ends, at)
				}
			}
			return ends
		}
		whole, parts := follow(len(all)), follow(int(cut)+1)
		if len(whole) != len(parts) {
			t.Fatalf("%x: ends at %v, cut by %d at %v", all, whole, cut, parts)
		}
		for i := range whole {
			if whole[i] != parts[i] {
				t.Fatalf("%x: ends at %v, cut by %d at %v", all, whole, cut, parts)
			}
		}
	})
}

// TestWebSocketsAreToldOfTheEnd: with 1001, between two frames: at once where none is under way, and
// otherwise at its end. What comes after that is left out.
func TestWebSocketsAreToldOfTheEnd(t *testing.T) {
	for _, part := range []int{0, 3} {
		goOn, heard := make(chan bool), make(chan []byte, 1)
		said := frame(5, false)
		s := serving(t, talker(t, string(said), func(s *http1.Session) {
			s.Write(said[:part])
			<-goOn
			s.Write(said[part:])
			all, _ := io.ReadAll(s.In)
			heard <- all
		}))
		c := dial(t, s, 80)
		c.Say(upgrade)
		if head := c.Head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
			t.Fatalf("the head is %q", head)
		}
		if _, err := io.ReadFull(c.In, make([]byte, len(said)+part)); err != nil {
			t.Fatal(err)
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		done := make(chan bool)
		go func() {
			s.Drain(over)
			close(done)
		}()
		await.True(t, "the tunnel is ending", func() bool { return isEnding(&s.proxy.tunnels) })
		close(goOn)
		want := goingAway(false)
		if part > 0 {
			want = append(said[part:len(said):len(said)], want...)
		}
		if rest, _ := io.ReadAll(c.In); !bytes.Equal(rest, want) {
			t.Errorf("with %d bytes of a frame sent, then came %x, want %x", part, rest, want)
		}
		if all := <-heard; len(all) != 8 || all[0] != 0x88 || all[1] != 0x82 || all[6]^all[2] != 3 || all[7]^all[3] != 0xe9 {
			t.Errorf("the endpoint heard %x", all)
		}
		<-done
	}
}

// isEnding reports whether tunnels have been told to end, in both directions.
func isEnding(s *tunnels) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.open {
		for _, d := range [...]*direction{&t.down, &t.up} {
			d.mu.Lock()
			ending := d.ending
			d.mu.Unlock()
			if !ending {
				return false
			}
		}
	}
	return s.over
}

// TestTunnelsThatComeLate: one that comes when all are ended is ended, too.
func TestTunnelsThatComeLate(t *testing.T) {
	var all tunnels
	if !all.add(&tunnel{}) {
		t.Error("before the end none may come")
	}
	all = tunnels{}
	all.end()
	if all.add(&tunnel{}) {
		t.Error("after the end one stays")
	}
}
