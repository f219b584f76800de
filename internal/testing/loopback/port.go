package loopback

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Port is one of this machine at which nobody can listen, also not at all addresses, until Free or the end of
// the test. No other test is given it meanwhile.
type Port struct {
	Number uint16
	socket int
}

// Held is a port that somebody holds, at all addresses: a connection of another one, from that port, would keep a
// listener at all of them away.
func Held(t testing.TB) *Port {
	t.Helper()
	family, everywhere := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{})
	if probe, err := unix.Socket(family, unix.SOCK_STREAM, 0); err != nil {
		family, everywhere = unix.AF_INET, &unix.SockaddrInet4{}
	} else {
		unix.Close(probe)
	}
	socket := open(t, family, everywhere)
	return &Port{portOf(t, socket), socket}
}

// Free lets processes of this user listen at it that share it (SO_REUSEPORT), and nobody else.
func (p *Port) Free(t testing.TB) {
	t.Helper()
	if err := unix.SetsockoptInt(p.socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
}
