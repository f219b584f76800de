// Package upstream speaks HTTP/1.1 to endpoints: it keeps one pool of connections for each, writes
// requests and reads responses, in the caller's goroutine.
//
// A request is written from parts that have been checked, with exactly one framing (RFC 9112, 6). A
// response is read strictly, see Malformed. A connection is used again only if request and response
// were both complete and nothing was left over, and if right before that the kernel has nothing to read
// from it: neither an end nor a byte that belongs to nothing.
//
// Its files, in the order in which to open them:
//
//   - upstream.go: Options, and the pools of all endpoints.
//   - exchange.go: Do, from the request to the end of the response.
//   - request.go: what is sent. upload.go: a body that is read while it is sent.
//   - response.go: a head that is read. Package message reads it, and the body after it.
//   - pool.go: the connections to one endpoint. conn.go: one of them, and its bounds of time.
//   - errors.go: how far a request had come when it failed.
package upstream

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Options are bounds. A time-out of 0 is none.
type Options struct {
	// Connect bounds each connect.
	Connect time.Duration
	// Head bounds the wait for a response's head, from when the request was sent.
	Head time.Duration
	// Progress bounds the wait for each next part of a response's body, and for an endpoint to take the
	// next part of a request. It is not held against a response while its request is still being sent.
	Progress time.Duration
	// Continue is for how long a body waits for 100 (Continue) where the request expects it; 0 is not at
	// all.
	Continue time.Duration
	// Idle is for how long a connection may wait for its next request, MaxIdle how many may in a pool.
	Idle    time.Duration
	MaxIdle int
	// HeadBytes bounds the head of a response.
	HeadBytes int
}

// Defaults are those of the proxy's flags.
func Defaults() Options {
	return Options{
		Connect: time.Second, Head: 60 * time.Second, Progress: 75 * time.Second, Continue: time.Second,
		Idle: 75 * time.Second, MaxIdle: 256, HeadBytes: 64 << 10,
	}
}

// Key is an endpoint. With the pod's UID, connections to a pod of before are never used for another
// that has its address.
type Key struct {
	Address netip.AddrPort
	UID     string
}

// Pools are the pools of all endpoints.
type Pools struct {
	options Options
	dialer  net.Dialer

	mu    sync.Mutex
	byKey map[Key]*Pool
}

// NewPools has no pools yet.
func NewPools(o Options) *Pools {
	return &Pools{options: o, byKey: map[Key]*Pool{}}
}

// Open is the pool of an endpoint, which all who open it share. Each is to Close it once.
func (s *Pools) Open(k Key) *Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byKey[k]
	if p == nil {
		// The text that it is part of is all that was told of a backend, and is not to stay for it.
		k.UID = strings.Clone(k.UID)
		ctx, leave := context.WithCancel(context.Background())
		p = &Pool{pools: s, key: k, gone: ctx, leave: leave}
		s.byKey[k] = p
	}
	p.users++
	return p
}

// Sweep closes connections that have been idle for too long. Somebody is to call it now and then: a pool
// without requests has no other occasion.
func (s *Pools) Sweep(now time.Time) {
	s.mu.Lock()
	all := make([]*Pool, 0, len(s.byKey))
	for _, p := range s.byKey {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.sweep(now)
	}
}
