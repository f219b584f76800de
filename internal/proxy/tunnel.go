package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// closeTimeout is for how long a tunnel that is ended may take to end.
const closeTimeout = time.Second

// tunnels are connections that have changed their protocol.
type tunnels struct {
	mu   sync.Mutex
	open map[*tunnel]bool
	// over says whether no more are to be.
	over bool
}

// tunnel is a client's connection and an endpoint's, of which each gets what the other says.
type tunnel struct {
	client, endpoint net.Conn
	// down is what the endpoint says, up what the client says.
	down, up direction
}

// direction is one of a tunnel.
type direction struct {
	from, to net.Conn
	masked   bool

	// mu is held while something is written.
	mu sync.Mutex
	// framed says whether it is WebSocket, whose frames are followed.
	framed bool
	frames frames
	// ending says whether a frame that closes is to be written, closed whether it was.
	ending, closed bool
}

// switchProtocols passes 101 (Switching Protocols) on, and then what client and endpoint say, until both
// have ended.
func (x *exchange) switchProtocols() {
	endpoint, early := x.response.TakeOver()
	defer endpoint.Close()
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.status = http.StatusInternalServerError
		panic(http.ErrAbortHandler)
	}
	defer client.Close()
	x.status = http.StatusSwitchingProtocols
	said, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	t := newTunnel(client, endpoint, strings.EqualFold(x.upgrade, "websocket"))
	if _, err := client.Write(x.switched()); err != nil {
		return
	}
	if !x.p.tunnels.add(t) {
		t.end()
	}
	defer x.p.tunnels.remove(t)
	t.run(early, said)
}

// switched is the head that the client gets.
func (x *exchange) switched() []byte {
	h := http.Header{}
	copyFields(h, x.answer.header, false, make([]string, len(x.answer.header)))
	x.filterResponse(h)
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + x.upgrade + "\r\n")
	// It writes a field in one line, whatever its value.
	h.Write(&b)
	b.WriteString("\r\n")
	return []byte(b.String())
}

func newTunnel(client, endpoint net.Conn, framed bool) *tunnel {
	return &tunnel{
		client: client, endpoint: endpoint,
		down: direction{from: endpoint, to: client, framed: framed},
		up:   direction{from: client, to: endpoint, framed: framed, masked: true},
	}
}

// run passes on what either side has said already, and then what it says, until both have ended.
func (t *tunnel) run(down, up []byte) {
	var wait sync.WaitGroup
	wait.Go(func() { t.pump(&t.up, up) })
	t.pump(&t.down, down)
	wait.Wait()
}

// pump goes on until one side has ended, and tells the other of that; where it breaks off, both end.
func (t *tunnel) pump(d *direction, early []byte) {
	err := d.write(early)
	buf := newCopyBuffer()
	defer buf.put()
	for err == nil {
		var n int
		n, err = d.from.Read(buf.bytes())
		if failed := d.write(buf.bytes()[:n]); failed != nil {
			err = failed
		}
		buf.grow(n)
	}
	half, fine := d.to.(interface{ CloseWrite() error })
	if err == io.EOF && fine {
		half.CloseWrite()
		return
	}
	t.client.Close()
	t.endpoint.Close()
}

// write passes p on. Where the direction is ending, that goes to the end of a frame, and what follows is
// left out.
func (d *direction) write(p []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	end := len(p)
	if d.framed {
		end = 0
		for end < len(p) && !(d.ending && d.frames.between()) {
			end += d.frames.next(p[end:])
		}
	}
	if end > 0 {
		if _, err := d.to.Write(p[:end]); err != nil {
			return err
		}
	}
	return d.closeBetween()
}

// closeBetween writes the frame that closes, if it is to be and may be now.
func (d *direction) closeBetween() error {
	if !d.ending || !d.framed || !d.frames.between() {
		return nil
	}
	d.closed = true
	_, err := d.to.Write(goingAway(d.masked))
	return err
}

// end tells both sides of a WebSocket that this one is going away, each at the end of a frame, and ends
// the tunnel a moment later.
func (t *tunnel) end() {
	by := time.Now().Add(closeTimeout)
	for _, d := range [...]*direction{&t.down, &t.up} {
		d.to.SetWriteDeadline(by)
		d.mu.Lock()
		d.ending = true
		d.closeBetween()
		d.mu.Unlock()
	}
	t.client.SetReadDeadline(by)
	t.endpoint.SetReadDeadline(by)
}

// add is false when no more are to be.
func (s *tunnels) add(t *tunnel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*tunnel]bool{}
	}
	s.open[t] = true
	return !s.over
}

func (s *tunnels) remove(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
}

// end ends all that there are, and all that come.
func (s *tunnels) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for t := range s.open {
		go t.end()
	}
}
