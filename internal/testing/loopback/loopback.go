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

// bound is a socket that is bound to a port of 127.0.0.1 until the test ends.
func bound(t testing.TB) (socket int, at netip.AddrPort) {
	t.Helper()
	address := [4]byte{127, 0, 0, 1}
	socket = open(t, unix.AF_INET, &unix.SockaddrInet4{Addr: address})
	return socket, netip.AddrPortFrom(netip.AddrFrom4(address), portOf(t, socket))
}

// portOf is that which the kernel chose.
func portOf(t testing.TB, socket int) uint16 {
	t.Helper()
	name, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	if at, is := name.(*unix.SockaddrInet6); is {
		return uint16(at.Port)
	}
	return uint16(name.(*unix.SockaddrInet4).Port)
}

// open is a socket that is bound until the test ends.
func open(t testing.TB, family int, at unix.Sockaddr) (socket int) {
	t.Helper()
	socket, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := unix.Bind(socket, at); err != nil {
		t.Fatal(err)
	}
	return socket
}
