// Package http1 speaks HTTP/1.1 byte by byte, as tests say: as a server that does with each connection
// what a test wants, or as a client.
package http1

import (
	"bufio"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// Server listens on this machine until its test ends.
type Server struct {
	listener net.Listener
	play     func(*Session)
	over     chan struct{}
	wait     sync.WaitGroup

	mu       sync.Mutex
	sessions []*Session
}

// Listen starts a server that plays each connection as a test says, and then closes it. At the end of the
// test all are closed, and it waits until play has returned for each.
func Listen(t testing.TB, play func(*Session)) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{listener: l, play: play, over: make(chan struct{})}
	s.wait.Go(s.accept)
	t.Cleanup(s.end)
	return s
}

func (s *Server) accept() {
	for n := 0; ; n++ {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		one := &Session{Conn: conn, In: bufio.NewReader(conn), Number: n, Over: s.over}
		s.mu.Lock()
		s.sessions = append(s.sessions, one)
		s.mu.Unlock()
		s.wait.Go(func() {
			defer one.Close()
			s.play(one)
		})
	}
}

func (s *Server) end() {
	close(s.over)
	s.listener.Close()
	s.mu.Lock()
	for _, one := range s.sessions {
		one.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
}

// Address is where it listens.
func (s *Server) Address() netip.AddrPort {
	return s.listener.Addr().(*net.TCPAddr).AddrPort()
}

// Connections is how many there were.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}
