package connections

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// sight is what is seen of ports, with a dump only where a test wants one.
type sight struct {
	*kernel
	*ledger
}

func see(t *testing.T, ports ...*port) *sight {
	t.Helper()
	var numbers []uint16
	for _, p := range ports {
		numbers = append(numbers, p.number)
	}
	s := &sight{open(t, receiveBuffer, numbers...), newLedger(numbers)}
	s.look(t)
	return s
}

func (s *sight) look(t *testing.T) {
	t.Helper()
	begun := time.Now()
	found, _, err := s.dump()
	if err != nil {
		t.Fatal(err)
	}
	s.dumped(found, begun)
	s.read(t)
}

// read reads the notices that are there.
func (s *sight) read(t *testing.T) {
	t.Helper()
	if err := s.drain(func(c connection) { s.destroyed(c, time.Now()) }); err != nil {
		t.Fatal(err)
	}
}

// awaitOpen awaits that so many connections to the first port are open.
func (s *sight) awaitOpen(t *testing.T, want int32) {
	t.Helper()
	await.True(t, "the right number of connections is open", func() bool {
		s.look(t)
		return s.report(time.Now())[0].Open == want
	})
}

// awaitSeen awaits that so many connections were seen, and none too many. Notices
// that are late are waited for.
func (s *sight) awaitSeen(t *testing.T, want int) {
	t.Helper()
	await.True(t, "every connection is seen", func() bool {
		s.read(t)
		return s.seen >= want
	})
	for range 3 {
		delivered(t)
		s.look(t)
	}
	if s.seen != want {
		t.Errorf("%d new connections were seen, want %d", s.seen, want)
	}
}

func TestOpenConnections(t *testing.T) {
	for name, r := range routes {
		t.Run(name, func(t *testing.T) {
			p := listen(t, r)
			s := see(t, p)
			s.awaitOpen(t, 0)
			peer, here := p.pair(t)
			s.awaitOpen(t, 1)
			p.dial(t) // nobody accepts it
			s.awaitOpen(t, 2)
			peer.Close()
			closed(t, here)
			s.awaitOpen(t, 1)
			s.awaitSeen(t, 2)
		})
	}
}

func TestHalfOpenConnection(t *testing.T) {
	p := listen(t, over4, deferred)
	s := see(t, p)
	peer := p.dial(t)
	s.awaitOpen(t, 1)
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	here := p.accept(t)
	s.awaitOpen(t, 1)
	s.awaitSeen(t, 1)
	here.Close()
	// What was not read makes the kernel reset the connection.
	await.True(t, "it is closed", func() bool { _, err := peer.Read(make([]byte, 1)); return err != nil })
	s.awaitOpen(t, 0)
	s.awaitSeen(t, 1)
}

// TestClosing goes through the states at the end of a connection: it is open until
// neither side can send any more, and none of its states is a new connection.
func TestClosing(t *testing.T) {
	p := listen(t, over4)
	s := see(t, p)

	peer, here := p.pair(t)
	s.look(t)
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	readEnd(t, here) // CLOSE_WAIT
	s.awaitOpen(t, 1)
	here.Close()
	closed(t, peer)
	s.awaitOpen(t, 0)

	peer, here = p.pair(t)
	if err := here.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	readEnd(t, peer) // FIN_WAIT2, and the process still reads
	s.awaitOpen(t, 1)
	here.Close() // FIN_WAIT2 of nobody: whatever the peer sends is refused
	s.awaitOpen(t, 0)
	peer.Close() // TIME_WAIT
	s.awaitOpen(t, 0)
	s.awaitSeen(t, 2)
}

// TestUnsentAnswer counts a connection that the process has closed, of which bytes
// are still under way.
func TestUnsentAnswer(t *testing.T) {
	p := listen(t, over4)
	s := see(t, p)
	peer, here := p.pair(t)
	if err := here.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for answer := make([]byte, 1<<20); ; {
		if _, err := here.Write(answer); err != nil {
			break // the peer reads nothing
		}
	}
	here.Close() // FIN_WAIT1 of nobody
	for range 3 {
		s.awaitOpen(t, 1)
	}
	closed(t, peer)
	s.awaitOpen(t, 0)
	s.awaitSeen(t, 1)
}

// short are ways in which a connection can be over before the next dump.
var short = map[string]func(t *testing.T, p *port){
	"closed by the peer": func(t *testing.T, p *port) {
		peer, here := p.pair(t)
		peer.Close()
		closed(t, here)
	},
	"closed here": func(t *testing.T, p *port) {
		peer, here := p.pair(t)
		here.Close()
		closed(t, peer)
	},
	"reset by the peer": func(t *testing.T, p *port) {
		peer, here := p.pair(t)
		reset(t, peer)
		here.Close()
	},
	"reset here": func(t *testing.T, p *port) {
		_, here := p.pair(t)
		reset(t, here)
	},
	"reset before it was accepted": func(t *testing.T, p *port) {
		reset(t, p.dial(t))
		p.accept(t).Close()
	},
	"half-open until data came": func(t *testing.T, p *port) {
		peer := p.dial(t)
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		p.accept(t).Close()
	},
}

// delivered waits until the kernel has told of all connections that are over, which it does in
// the order in which they end.
func delivered(t *testing.T) {
	t.Helper()
	p := listen(t, over4)
	k := open(t, receiveBuffer, p.number)
	short["closed by the peer"](t, p)
	told := false
	await.True(t, "the kernel tells of what ended last", func() bool {
		if err := k.drain(func(connection) { told = true }); err != nil {
			t.Fatal(err)
		}
		return told
	})
}

func reset(t *testing.T, conn interface {
	SetLinger(int) error
	Close() error
}) {
	t.Helper()
	if err := errors.Join(conn.SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestShortConnections misses none of hundreds that come and go between two dumps,
// and counts none twice unless a dump met it half-open.
func TestShortConnections(t *testing.T) {
	const each = 100
	for name, r := range routes {
		for end, connect := range short {
			t.Run(name+", "+end, func(t *testing.T) {
				var options []func(int) error
				if strings.HasPrefix(end, "half-open") {
					options = append(options, deferred)
				}
				p := listen(t, r, options...)
				s := see(t, p)
				for range each {
					connect(t, p)
				}
				s.awaitSeen(t, each)
				if s.ledger.dumps > 1+3 {
					t.Errorf("%d dumps came between", s.ledger.dumps)
				}
			})
		}
		t.Run(name+", many at a time while dumps go on", func(t *testing.T) {
			const atATime = 4
			p := listen(t, r)
			s := see(t, p)
			var clients sync.WaitGroup
			for range atATime {
				clients.Go(func() {
					for range each {
						if peer, err := p.tryDial(); err != nil {
							t.Error(err)
						} else {
							peer.Close()
						}
					}
				})
			}
			for i := range atATime * each {
				p.accept(t).Close()
				if i%20 == 0 {
					s.look(t)
				}
			}
			clients.Wait()
			const want = atATime * each
			await.True(t, "every connection is seen", func() bool {
				s.look(t)
				return s.seen >= want
			})
			if most := want + int(s.ledger.dumps); s.seen > most {
				t.Errorf("%d new connections were seen, want %d, or %d where dumps met half-open ones", s.seen, want, most)
			}
		})
	}
}

// TestOfNoInterest counts no listener that is closed, no connection to another
// port, and none of the node with itself.
func TestOfNoInterest(t *testing.T) {
	p, other, self := listen(t, over4), listen(t, over4), listen(t, route{here4, here4, here4})
	s := see(t, self, p)
	for _, ignored := range []*port{other, self} {
		ignored.pair(t)
		short["closed by the peer"](t, ignored)
	}
	self.Close()
	short["closed by the peer"](t, p) // notices of it come after those
	s.awaitSeen(t, 1)
	for _, told := range s.report(time.Now()) {
		if told.Open != 0 {
			t.Errorf("told: %+v", told)
		}
	}
}
