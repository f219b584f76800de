// Package loopback has ports of this machine for tests.
package loopback

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// Closed is an address at which nobody listens until the test ends, also no other test that runs
// meanwhile: its port is bound, and connections to it are refused.
func Closed(t testing.TB) netip.AddrPort {
	t.Helper()
	_, address := bound(t)
	return address
}

// bound is a socket that is bound to a port of the kernel's choice until the test ends.
func bound(t testing.TB) (socket int, at netip.AddrPort) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	address := [4]byte{127, 0, 0, 1}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: address}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return socket, netip.AddrPortFrom(netip.AddrFrom4(address), uint16(name.(*unix.SockaddrInet4).Port))
}
