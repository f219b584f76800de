package upstream

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ErrLeft is why nothing connects any more to an endpoint whose pool was closed.
var ErrLeft = errors.New("the endpoint has left")

// Pool has the connections to one endpoint.
type Pool struct {
	pools *Pools
	key   Key
	// users is how often it is open; guarded by the mutex of pools.
	users int
	// gone ends when nobody has it open any more.
	gone  context.Context
	leave context.CancelFunc
	// open is how many connections there are, idle ones among them.
	open atomic.Int64

	mu     sync.Mutex
	closed bool
	// idle are connections without a request, the one used last at the end.
	idle []*conn
}

// Close ends the pool when all who opened it have closed it: idle connections are closed, a connect
// under way is abandoned, and no new one is made. Exchanges under way end as they would.
func (p *Pool) Close() {
	p.pools.mu.Lock()
	p.users--
	last := p.users == 0
	if last {
		delete(p.pools.byKey, p.key)
	}
	p.pools.mu.Unlock()
	if !last {
		return
	}
	p.leave()
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// Idle is how many connections wait for a request.
func (p *Pool) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// Open is how many connections there are, idle ones among them, but for those that were taken over.
func (p *Pool) Open() int { return int(p.open.Load()) }

// take is a connection that can be used: the one that was used last, since it is the likeliest to be
// open still, or a new one. reused tells which.
func (p *Pool) take(ctx context.Context, q *Request) (c *conn, reused bool, failed *Error) {
	now := time.Now()
	for !q.Fresh {
		c := p.pop()
		if c == nil {
			break
		}
		if !c.expired(now) && c.quiet() {
			return c, true, nil
		}
		c.close()
	}
	c, failed = p.connect(ctx, now, q.Deadline)
	return c, false, failed
}

func (p *Pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

// put keeps a connection for the next request, or closes it.
func (p *Pool) put(c *conn, now time.Time) {
	c.idleSince = now
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < p.pools.options.MaxIdle
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.close()
	}
}

// sweep closes those that have been idle for too long, which are the first.
func (p *Pool) sweep(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && p.idle[n].expired(now) {
		n++
	}
	var old []*conn
	if n > 0 {
		old = append(old, p.idle[:n]...)
		kept := copy(p.idle, p.idle[n:])
		clear(p.idle[kept:])
		p.idle = p.idle[:kept]
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// connect makes a connection. It is abandoned when the request ends and when the endpoint leaves.
func (p *Pool) connect(ctx context.Context, now, deadline time.Time) (*conn, *Error) {
	connecting, cancel := context.WithCancel(p.gone)
	defer cancel()
	if limit := earlier(later(now, p.pools.options.Connect), deadline); !limit.IsZero() {
		connecting, cancel = context.WithDeadline(connecting, limit)
		defer cancel()
	}
	defer context.AfterFunc(ctx, cancel)()
	tcp, err := p.pools.dialer.DialTCP(connecting, "tcp", netip.AddrPort{}, p.key.Address)
	switch {
	case err == nil:
	case p.gone.Err() != nil:
		return nil, &Error{NotConnected, Connecting, ErrLeft}
	case ctx.Err() != nil:
		return nil, &Error{Canceled, Connecting, context.Cause(ctx)}
	case isLate(err):
		return nil, &Error{TimedOut, Connecting, err}
	default:
		return nil, &Error{NotConnected, Connecting, err}
	}
	c, err := newConn(p, tcp)
	if err != nil {
		tcp.Close()
		return nil, &Error{NotConnected, Connecting, err}
	}
	return c, nil
}

// later is when d is over, zero where d is none.
func later(now time.Time, d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return now.Add(d)
}

// earlier is the first of two moments, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
