package proxy

import (
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
)

// Options are bounds and what is believed. A time-out of 0 is none.
type Options struct {
	// Upstream bounds what endpoints may take.
	Upstream upstream.Options
	// Trusted are the peers whose X-Forwarded-* and X-Real-IP are believed.
	Trusted []netip.Prefix

	// Head bounds the time of a TLS handshake, and that from the first byte of a request's head to its
	// last: 408 after that. HeadBytes bounds its bytes: 431 beyond.
	Head      time.Duration
	HeadBytes int
	// Idle is for how long a connection may wait for its next request.
	Idle time.Duration
	// BodyRate is how many bytes of a body are to come in a second while it is read, on average over
	// BodyWindow: 408 below that; 0 is any. It does not hold once the response has begun.
	BodyRate   int
	BodyWindow time.Duration
	// MaxBody bounds the bytes of a body: 413 beyond; 0 is any.
	MaxBody int64
	// Write bounds how long a client may take none of a response.
	Write time.Duration
	// Streams bounds the requests at a time on a connection of HTTP/2.
	Streams int
	// LastRetry is what the last retry of a request waits for. Endpoints of a workload may end together before anybody
	// is told: the first retry hopes for another one, the last is to know it.
	LastRetry time.Duration
	// Connections bounds those that clients have open: beyond, idle ones make room, see clients; 0 is any number.
	Connections int

	// DrainDelay is for how long a drain takes connections as before, DrainIdle for how long at least it
	// leaves idle ones open, DrainTimeout after what it ends those that go on; all from its beginning.
	DrainDelay, DrainIdle, DrainTimeout time.Duration

	// Reserved are ports at which no listener of the table is opened, and why.
	Reserved map[uint16]string

	// Listen opens listeners, nil is ListenShared.
	Listen func(address string) (net.Listener, error)

	// Log gets what is to be said of connections: broken handshakes, and panics. nil is nothing.
	Log *log.Logger
}

// Defaults are those of the proxy's flags.
func Defaults() Options {
	return Options{
		Upstream: upstream.Defaults(),
		Head:     10 * time.Second, HeadBytes: 64 << 10, Idle: 75 * time.Second,
		BodyRate: 240, BodyWindow: 30 * time.Second,
		Write: 75 * time.Second, Streams: 250, LastRetry: 250 * time.Millisecond, Connections: 16384,
		DrainDelay: 5 * time.Second, DrainIdle: 5 * time.Second, DrainTimeout: 60 * time.Second,
	}
}

// trusts reports whether what a peer says of clients is believed.
func (o *Options) trusts(peer netip.Addr) bool {
	for _, p := range o.Trusted {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}
