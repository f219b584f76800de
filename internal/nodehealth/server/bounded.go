package server

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// bounded is a listener with a bound on its open connections. A newcomer is
// always let in and the oldest connection makes room: a health check takes
// milliseconds, so whoever is the oldest of many does not mean to finish.
type bounded struct {
	*net.TCPListener
	limit int
	// id is what whoever answers here says in its answers.
	id string

	mu   sync.Mutex
	open list.List
}

type boundedConn struct {
	*net.TCPConn
	from    *bounded
	element *list.Element
	// asked says whether a request came on it.
	asked atomic.Bool
}

func (b *bounded) Accept() (net.Conn, error) {
	tcp, err := b.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn := &boundedConn{TCPConn: tcp, from: b}
	if oldest := b.enter(conn); oldest != nil {
		oldest.Close()
	}
	return conn, nil
}

// enter counts a connection and returns the one that must make room for it.
func (b *bounded) enter(conn *boundedConn) *boundedConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	conn.element = b.open.PushBack(conn)
	if b.open.Len() <= b.limit {
		return nil
	}
	return b.open.Remove(b.open.Front()).(*boundedConn)
}

// inUse reports whether any connection is open.
func (b *bounded) inUse() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open.Len() > 0
}

// leave counts the connection no more. It may be called more than once.
func (c *boundedConn) leave() {
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	c.from.open.Remove(c.element)
}

func (c *boundedConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}
