package upstream

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/message"
)

// patience is how long a read waits before the context is watched. Most responses come sooner, and need
// no watch. It is also how exact deadlines of sockets are, which are then not set for each read.
const patience = 100 * time.Millisecond

// look is how often a read that waits looks whether its request has been sent.
const look = 2 * patience

// conn is a connection, with the exchange that it is used for.
type conn struct {
	pool *Pool
	tcp  *net.TCPConn
	// peek looks, with raw.Control, whether there is something to read, and sets quietly.
	raw       syscall.RawConn
	peek      func(fd uintptr)
	peeked    [1]byte
	quietly   bool
	idleSince time.Time
	// counted says whether it is one of the pool's that are open.
	counted atomic.Bool

	in   message.Reader
	body message.Body
	// readBy and writeBy are the socket's deadlines. writeBy belongs to who writes: the upload while
	// there is one.
	readBy, writeBy time.Time
	// vector is what is being written, and rest that of it which has not been.
	vector [2][]byte
	rest   net.Buffers

	// Of the exchange: what ends it from outside.
	ctx      context.Context
	unwatch  func() bool
	deadline time.Time
	upload   *upload
	// since is when the last part was sent, or the next one was asked for, bound how long that may take.
	since time.Time
	bound time.Duration
	// last says whether no other exchange can follow.
	last bool
}

func newConn(p *Pool, tcp *net.TCPConn) (*conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{pool: p, tcp: tcp, raw: raw}
	c.counted.Store(true)
	p.open.Add(1)
	c.in.Src = c
	c.peek = func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), c.peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		c.quietly = errors.Is(err, syscall.EAGAIN)
	}
	return c, nil
}

// quiet reports whether an idle connection has nothing to read: neither its end, nor a byte that belongs to
// no request.
func (c *conn) quiet() bool {
	c.quietly = false
	return c.raw.Control(c.peek) == nil && c.quietly
}

func (c *conn) expired(now time.Time) bool {
	idle := c.pool.pools.options.Idle
	return idle > 0 && now.Sub(c.idleSince) >= idle
}

// close is safe at any time, and ends what reads and writes.
func (c *conn) close() {
	c.leave()
	c.tcp.Close()
}

// leave has the connection counted no more.
func (c *conn) leave() {
	if c.counted.Swap(false) {
		c.pool.open.Add(-1)
	}
}

// Read reads from the socket until a bound is reached or the context ends.
func (c *conn) Read(p []byte) (int, error) {
	for slow := false; ; slow = true {
		now := time.Now()
		by, err := c.wake(now)
		if err != nil {
			return 0, err
		}
		c.armRead(now, by, slow)
		n, err := c.tcp.Read(p)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		c.watch()
	}
}

// wake is when a read is to look up at the latest, zero for never; or why it is to end.
func (c *conn) wake(now time.Time) (time.Time, error) {
	if !c.deadline.IsZero() && !now.Before(c.deadline) {
		return time.Time{}, errLate
	}
	if c.upload != nil {
		if by, sending := c.upload.wake(now); sending {
			return earlier(by, c.deadline), nil
		}
		if c.upload.ended.After(c.since) {
			c.since = c.upload.ended
		}
	}
	limit := later(c.since, c.bound)
	if !limit.IsZero() && !now.Before(limit) {
		return time.Time{}, errLate
	}
	return earlier(limit, c.deadline), nil
}

// armRead sets the socket's deadline: a short one at first, which is left alone while it is short and
// not over, and then the real one.
func (c *conn) armRead(now, by time.Time, slow bool) {
	if !slow {
		if left := c.readBy.Sub(now); left > patience && left <= 2*patience && (by.IsZero() || !c.readBy.After(by)) {
			return
		}
		by = earlier(now.Add(2*patience), by)
	}
	if !by.Equal(c.readBy) {
		c.readBy = by
		c.tcp.SetReadDeadline(by)
	}
}

// watch ends the connection when the context ends, from now on.
func (c *conn) watch() {
	if c.unwatch == nil && c.ctx.Done() != nil {
		c.unwatch = context.AfterFunc(c.ctx, c.close)
	}
}

// write writes both, at once if it can. Each part of it may take as long as Options.Progress, or a
// quarter longer, so that the deadline is not set each time.
func (c *conn) write(a, b []byte) (written int64, err error) {
	c.vector = [2][]byte{a, b}
	c.rest = c.vector[:]
	for {
		c.armWrite()
		n, err := c.writeRest()
		written += n
		if err == nil || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// writeRest writes what is left. One piece alone costs less as it is than as a vector.
func (c *conn) writeRest() (int64, error) {
	if len(c.rest) > 1 && len(c.rest[1]) > 0 {
		return c.rest.WriteTo(c.tcp)
	}
	n, err := c.tcp.Write(c.rest[0])
	c.rest[0] = c.rest[0][n:]
	return int64(n), err
}

func (c *conn) armWrite() {
	bound := c.pool.pools.options.Progress
	if bound == 0 {
		return
	}
	if now := time.Now(); c.writeBy.Sub(now) < bound {
		c.writeBy = now.Add(bound + bound/4)
		c.tcp.SetWriteDeadline(c.writeBy)
	}
}
