package proxy

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// clients are the connections of clients. Where there are as many as there may be, those make room for new ones that
// have waited longest for a request's head, as nginx has it: whoever holds idle ones open, or begins heads and does not
// end them, cannot keep others out by them, as he could where new ones were refused.
type clients struct {
	// most is how many there may be, 0 for any number.
	most int

	mu   sync.Mutex
	open map[*clientConn]bool
	// none is told that there is no connection any more.
	none chan struct{}
}

// admit takes a connection in. It is false where there is no room, because each of the others has a request under way.
func (s *clients) admit(c *clientConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && len(s.open) >= s.most && !s.makeRoom() {
		return false
	}
	s.open[c] = true
	return true
}

// makeRoom ends a sixteenth of the connections, so that not each new one has to look through all of them; fewer where
// fewer are idle. It is false where none is.
func (s *clients) makeRoom() bool {
	type idle struct {
		*clientConn
		since int64
	}
	var all []idle
	for c := range s.open {
		if since := c.idleSince.Load(); since != 0 {
			all = append(all, idle{c, since})
		}
	}
	slices.SortFunc(all, func(a, b idle) int { return cmp.Compare(a.since, b.since) })
	all = all[:min(len(all), max(s.most/16, 1))]
	for _, c := range all {
		delete(s.open, c.clientConn)
		c.s.proxy.metrics.displaced.Add(1)
		// Who serves it finds that it has ended, and closes the rest of it.
		c.TCPConn.Close()
	}
	return len(all) > 0
}

func (s *clients) remove(c *clientConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if len(s.open) == 0 {
		select {
		case s.none <- struct{}{}:
		default:
		}
	}
}

// endIdle ends connections of HTTP/1.1 that wait for a request of which nothing has come; but for those that were made a
// moment ago, since theirs is on its way.
func (s *clients) endIdle(now time.Time) {
	s.endThose(func(c *clientConn) bool {
		since := c.idleSince.Load()
		awaited := !c.served.Load() && now.Sub(time.Unix(0, since)) < endTimeout
		return !c.http2.Load() && since != 0 && !c.begun.Load() && !awaited
	})
}

// end ends all connections.
func (s *clients) end() {
	s.endThose(func(*clientConn) bool { return true })
}

// endThose closes connections. Who serves them finds it, and closes the rest.
func (s *clients) endThose(which func(*clientConn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if which(c) {
			c.TCPConn.Close()
		}
	}
}

// settle returns when there is no connection, or with the context.
func (s *clients) settle(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		n := len(s.open)
		s.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-s.none:
		case <-ctx.Done():
		}
	}
}
