package loopback

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Full is a listener at which connects are not answered, because there is no more room, until Accept has made some. The
// connections that it gives first say nothing.
func Full(t testing.TB) net.Listener {
	t.Helper()
	socket, address := bound(t)
	if err := unix.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	// It is the listener's own, and outlasts that.
	copied, err := unix.Dup(socket)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(copied), address.String())
	l, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for range 2 {
		if c, err := net.DialTimeout("tcp", address.String(), 100*time.Millisecond); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return l
}
