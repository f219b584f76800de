package connections

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dumpTimeout bounds the wait for a part of a dump, which the kernel makes while
	// it is read.
	dumpTimeout = 2 * time.Second
	// readSize is the largest part of a dump that the kernel makes (netlink_recvmsg).
	readSize = 32 << 10
)

var (
	errOverrun   = errors.New("notices of destroyed sockets were lost")
	errMalformed = errors.New("the kernel's answer is not understood")
	errForeign   = errors.New("the kernel's answer belongs to another question")
	errChanged   = errors.New("the kernel interrupted the dump")
)

// kernel is what the kernel tells of the connections to some ports of the network
// namespace. Only one goroutine may use it, but for interrupt.
type kernel struct {
	ports []uint16
	// dumps is the socket that dumps are asked for on.
	dumps    int
	sequence uint32
	// notices is the socket that tells of destroyed sockets.
	notices *os.File
	conn    syscall.RawConn
	buffer  []byte
	found   []connection
}

// openKernel subscribes to notices, of which the given number of bytes may wait to
// be read. It fails where the kernel was built without socket diagnostics, or a
// sandbox forbids them.
func openKernel(ports []uint16, receiveBuffer int) (*kernel, error) {
	notices, err := subscribe(ports, receiveBuffer)
	if err != nil {
		return nil, fmt.Errorf("subscribing to destroyed sockets: %w", err)
	}
	k := &kernel{ports: ports, notices: notices, buffer: make([]byte, readSize)}
	if k.conn, err = notices.SyscallConn(); err == nil {
		k.dumps, err = openDumps()
	}
	if err != nil {
		notices.Close()
		return nil, fmt.Errorf("opening a socket for dumps: %w", err)
	}
	return k, nil
}

// interrupt ends a wait.
func (k *kernel) interrupt() { k.notices.Close() }

func (k *kernel) close() {
	k.notices.Close()
	unix.Close(k.dumps)
}

// subscribe opens a socket for notices. The kernel lets everybody receive them. The
// filter goes first, so that no notice of another port takes up room.
func subscribe(ports []uint16, receiveBuffer int) (*os.File, error) {
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_NETLINK, kind, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	notices := os.NewFile(uintptr(fd), "destroyed sockets")
	program := portFilter(ports)
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}),
	)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
			Groups: group(unix.SKNLGRP_INET_TCP_DESTROY) | group(unix.SKNLGRP_INET6_TCP_DESTROY)})
	}
	if err != nil {
		notices.Close()
		return nil, err
	}
	return notices, nil
}

// group is the bit of a multicast group, which are numbered from 1.
func group(number int) uint32 { return 1 << (number - 1) }

func openDumps() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	timeout := unix.NsecToTimeval(dumpTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// dump lists the connections that are open, and tells how much processor time that
// took, the kernel's included. The list is good until the next dump. IPv6 sockets
// include those of IPv4 peers that an IPv6 listener accepted.
func (k *kernel) dump() (found []connection, spent time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	k.found = k.found[:0]
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := k.dumpFamily(family); err != nil {
			return nil, 0, fmt.Errorf("listing the TCP sockets: %w", err)
		}
	}
	return k.found, threadTime() - before, nil
}

// threadTime is the processor time of the thread so far.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("every thread has this clock: " + err.Error())
	}
	return time.Duration(t.Nano())
}

func (k *kernel) dumpFamily(family uint8) error {
	k.sequence++
	if err := unix.Sendto(k.dumps, dumpRequest(family, k.sequence, k.ports), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, err := unix.Read(k.dumps, k.buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := k.collect(k.buffer[:n]); done || err != nil {
			return err
		}
	}
}

// collect takes the connections from a part of a dump. It tells whether it was the
// last.
func (k *kernel) collect(part []byte) (done bool, err error) {
	for m, err := range messages(part) {
		switch {
		case err != nil:
			return false, err
		case m.sequence != k.sequence:
			return false, errForeign
		case m.flags&unix.NLM_F_DUMP_INTR != 0:
			return false, errChanged
		case m.kind == unix.NLMSG_DONE, m.kind == unix.NLMSG_ERROR:
			return true, m.failure()
		}
		c, counts, err := decode(m.body)
		if err != nil {
			return false, err
		}
		if counts {
			k.found = append(k.found, c)
		}
	}
	return false, nil
}

// wait tells of connections that end, until the given time.
func (k *kernel) wait(until time.Time, ended func(connection)) error {
	err := k.notices.SetReadDeadline(until)
	if err == nil {
		err = k.receive(k.conn.Read, ended)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("awaiting notices: %w", err)
	}
	return nil
}

// drain tells of connections of which the end waits to be read.
func (k *kernel) drain(ended func(connection)) error {
	once := func(read func(fd uintptr) bool) error { return k.conn.Control(func(fd uintptr) { read(fd) }) }
	if err := k.receive(once, ended); err != nil {
		return fmt.Errorf("reading notices: %w", err)
	}
	return nil
}

// receive reads all notices that are there, as often as it is given access.
func (k *kernel) receive(access func(func(fd uintptr) bool) error, ended func(connection)) error {
	var failed error
	err := access(func(fd uintptr) bool {
		failed = k.readNotices(int(fd), ended)
		return failed != nil
	})
	return errors.Join(failed, err)
}

func (k *kernel) readNotices(fd int, ended func(connection)) error {
	for {
		n, err := unix.Read(fd, k.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			return errOverrun
		case err != nil:
			return err
		}
		for m, err := range messages(k.buffer[:n]) {
			if err != nil {
				return err
			}
			c, counts, err := decode(m.body)
			if err != nil {
				return err
			}
			if counts {
				ended(c)
			}
		}
	}
}
