package downstream

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// waiting is how a connection waits for its next request: without a buffer, since most of the connections that there are
// wait.
type waiting struct {
	// raw is the socket, nil where there is none, as with TLS. try reads from it without waiting, into the buffer that it
	// borrows for that, and failed is how it ended.
	raw    syscall.RawConn
	try    func(fd uintptr) (done bool)
	failed error
	// first is the first byte of a request where there is no socket: the rest is read when it has come.
	first [1]byte
}

func (w *waiting) begin(c *conn) {
	if socket, is := c.nc.(syscall.Conn); is {
		w.raw, _ = socket.SyscallConn()
	}
	w.try = func(fd uintptr) bool {
		n, err := readNow(int(fd), c.in.Lend())
		if err == syscall.EAGAIN {
			c.in.Release()
			return false
		}
		if w.failed = err; err == nil {
			c.in.Got(n)
		}
		if err == nil && n == 0 {
			w.failed = io.EOF
		}
		return true
	}
}

// readNow reads what there is.
func readNow(fd int, p []byte) (n int, err error) {
	for {
		if n, err = syscall.Read(fd, p); err != syscall.EINTR {
			return n, err
		}
	}
}

// await waits for the first bytes of a head: as long as the pause between two requests may be, or before the first one
// as long as its head may take. A deadline is left as it is where it is about the same.
func (c *conn) await() error {
	if len(c.in.Buffered()) > 0 {
		return nil
	}
	by := c.headBy
	if by.IsZero() && c.s.Idle > 0 {
		by = time.Now().Add(c.s.Idle)
	}
	c.arm(by, c.s.Idle/32)
	if c.raw == nil {
		return c.awaitByte()
	}
	return errors.Join(c.raw.Read(c.try), c.failed)
}

func (c *conn) awaitByte() error {
	n, err := c.nc.Read(c.first[:])
	if n == 0 {
		return err
	}
	c.in.Got(copy(c.in.Lend(), c.first[:]))
	return nil
}
