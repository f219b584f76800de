package connections

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

func open(t testing.TB, buffer int, ports ...uint16) *kernel {
	t.Helper()
	k, err := openKernel(ports, buffer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

// TestPorts finds the connections to each of many ports, and no others.
func TestPorts(t *testing.T) {
	var numbers []uint16
	for i := range 5 {
		p := listen(t, over4)
		for range i {
			p.dial(t)
		}
		numbers = append(numbers, p.number)
	}
	for _, watched := range [][]uint16{numbers[:1], numbers[1:2], numbers[1:3], numbers[2:], numbers} {
		k := open(t, receiveBuffer, watched...)
		found, _, err := k.dump()
		if err != nil {
			t.Fatal(err)
		}
		got := map[uint16]int{}
		for _, c := range found {
			got[c.port]++
		}
		want := 0
		for i, number := range numbers {
			open := 0
			for _, w := range watched {
				if w == number {
					open = i
				}
			}
			want += open
			if got[number] != open {
				t.Errorf("watching %v of %v: %d connections to %d, want %d", watched, numbers, got[number], number, open)
			}
		}
		if len(found) != want {
			t.Errorf("watching %v: %d connections, want %d", watched, len(found), want)
		}
	}
}

// TestLongDump takes a dump of many parts.
func TestLongDump(t *testing.T) {
	const connections = 700
	p := listen(t, over4)
	for range connections {
		p.pair(t)
	}
	k := open(t, receiveBuffer, p.number)
	for range 3 {
		found, _, err := k.dump()
		if err != nil || len(found) != connections {
			t.Errorf("%d connections (%v), want %d", len(found), err, connections)
		}
	}
}

// TestOverrun reads nothing while notices come. The kernel sends them when it has
// time, so that some bursts may come through.
func TestOverrun(t *testing.T) {
	p := listen(t, over4)
	k := open(t, 1, p.number) // the kernel makes it the least that there is
	await.True(t, "notices are lost", func() bool {
		for range 20 {
			short["closed here"](t, p)
		}
		delivered(t)
		err := k.drain(func(connection) {})
		if err != nil && !errors.Is(err, errOverrun) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// TestNoticesOfOthersTakeNoRoom reads nothing while connections to another port end.
func TestNoticesOfOthersTakeNoRoom(t *testing.T) {
	p, other := listen(t, over4), listen(t, over4)
	k := open(t, 1, p.number)
	for range 10 {
		for range 20 {
			short["closed here"](t, other)
		}
		delivered(t)
		if err := k.drain(func(c connection) { t.Errorf("notice of %v", c) }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFailingDump(t *testing.T) {
	k := open(t, receiveBuffer, 80)
	unix.Close(k.dumps)
	if _, _, err := k.dump(); !errors.Is(err, unix.EBADF) {
		t.Errorf("error is %v", err)
	}
	fd, err := openDumps()
	if err != nil {
		t.Fatal(err)
	}
	k.dumps = fd
	// A part of an earlier dump is still to be read.
	if err := unix.Sendto(k.dumps, dumpRequest(unix.AF_INET, 4711, k.ports), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.dump(); err == nil {
		t.Error("the answer to another question is taken")
	}
}

func TestRefusedDump(t *testing.T) {
	if err := open(t, receiveBuffer, 80).dumpFamily(unix.AF_MAX); !errors.Is(err, unix.EINVAL) {
		t.Errorf("error is %v", err)
	}
}

// TestNeedsNoPrivilege watches as a user without any.
func TestNeedsNoPrivilege(t *testing.T) {
	p := listen(t, over4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if _, _, failed := unix.RawSyscall(unix.SYS_SETRESUID, 65532, 65532, 65532); failed != 0 {
				t.Error(failed)
				return
			}
		}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var held [2]unix.CapUserData
		if err := unix.Capget(&header, &held[0]); err != nil || held[0].Effective != 0 || held[1].Effective != 0 {
			t.Errorf("capabilities %v (%v)", held, err)
		}
		k, err := openKernel([]uint16{p.number}, receiveBuffer)
		if err != nil {
			t.Error(err)
			return
		}
		defer k.close()
		peer, err := p.tryDial()
		if err != nil {
			t.Error(err)
			return
		}
		found, _, err := k.dump()
		if err != nil || len(found) != 1 {
			t.Errorf("%d connections (%v), want 1", len(found), err)
		}
		peer.Close()
		here, err := p.AcceptTCP()
		if err != nil {
			t.Error(err)
			return
		}
		here.Close()
		ended := errors.New("it ended")
		for end := time.Now().Add(20 * time.Second); ended != nil && time.Now().Before(end); {
			err := k.wait(time.Now().Add(10*time.Millisecond), func(c connection) {
				if c == found[0] {
					ended = nil
				}
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
		if ended != nil {
			t.Error("no notice came")
		}
	}()
	<-done
}
