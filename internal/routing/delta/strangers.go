package delta

import (
	"context"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/peer"
)

// maxStrangers bounds the connections on which nobody was let in yet. There is room for all proxies of a large
// fleet that come at once, because the controller before has ended.
const maxStrangers = 1024

// strangers are the connections on which nobody was let in yet, the oldest first. When there are too many, that
// is closed: who is let in is so within a moment, and who only keeps connections open keeps none from that.
type strangers struct {
	most int

	mu  sync.Mutex
	all []*connection
}

// connection leaves the strangers when it ends.
type connection struct {
	net.Conn
	among *strangers
	ends  string
}

// bounded is a listener whose connections are strangers' at first.
type bounded struct {
	net.Listener
	*strangers
}

// Accept is of net.Listener.
func (b bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{accepted, b.strangers, endsOf(accepted.LocalAddr(), accepted.RemoteAddr())}
	if oldest := b.add(c); oldest != nil {
		oldest.Close()
	}
	return c, nil
}

// Close is of net.Conn.
func (c *connection) Close() error {
	c.among.remove(func(other *connection) bool { return other == c })
	return c.Conn.Close()
}

// add gives the one for which there is no room any more, nil for none.
func (s *strangers) add(c *connection) (oldest *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all = append(s.all, c); len(s.all) > s.most {
		oldest = s.all[0]
	}
	return oldest
}

func (s *strangers) remove(is func(*connection) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, is)
}

// letIn notes that somebody was let in on the connection of a stream.
func (s *strangers) letIn(stream context.Context) {
	if on, is := peer.FromContext(stream); is {
		ends := endsOf(on.LocalAddr, on.Addr)
		s.remove(func(c *connection) bool { return c.ends == ends })
	}
}

// endsOf tells the open connections apart.
func endsOf(local, remote net.Addr) string { return local.String() + " " + remote.String() }
