package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
)

// portsOf opens ports as a pod of an IngressDaemonSet.
func portsOf(pod, set string) Ports {
	return Ports{Pod: pod, Set: func() string { return set }, Open: proxy.ListenShared, Log: slog.New(slog.DiscardHandler)}
}

// free is the address of a port that processes of this user may share.
func free(t *testing.T) string {
	t.Helper()
	port := loopback.Held(t)
	port.Free(t)
	return fmt.Sprintf(":%d", port.Number)
}

func opened(t *testing.T, p Ports, address string) net.Listener {
	t.Helper()
	l, err := p.Listen(address)
	if err != nil {
		t.Fatalf("pod %s cannot listen: %v", p.Pod, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestPorts: pods of one IngressDaemonSet share a port, and one of another gets it when the last of them has closed it.
// It holds up nobody else, however often it tries.
func TestPorts(t *testing.T) {
	address := free(t)
	old := opened(t, portsOf("web-a", "ingress/web"), address)
	next := opened(t, portsOf("web-b", "ingress/web"), address)
	other := portsOf("more-a", "ingress/more")
	refused := func(pod string) {
		t.Helper()
		if l, err := other.Listen(address); err == nil {
			l.Close()
			t.Error("another one's pod listens beside them")
		} else if want := "pod " + pod + " of another IngressDaemonSet listens there"; err.Error() != want {
			t.Errorf("the other one cannot listen because %q, want %q", err, want)
		}
	}
	refused("web-a")
	opened(t, other, free(t))
	opened(t, portsOf("web-c", "ingress/web"), address).Close()
	old.Close()
	refused("web-b")
	next.Close()
	opened(t, other, address)
	if _, err := portsOf("web-d", "ingress/web").Listen(address); err == nil || !strings.Contains(err.Error(), "pod more-a ") {
		t.Errorf("when the other one listens, one of the first is told %v", err)
	}
}

// TestPortTriedAgain: who tries to have a port that others have keeps none from it that shares it with them.
func TestPortTriedAgain(t *testing.T) {
	address := free(t)
	opened(t, portsOf("web-a", "ingress/web"), address)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				if l, err := portsOf("more-a", "ingress/more").Listen(address); err == nil {
					l.Close()
					t.Error("another one's pod listens beside them")
				}
			}
		})
	}
	for range 200 {
		opened(t, portsOf("web-b", "ingress/web"), address).Close()
	}
}

// TestPortNotOpened: who cannot open a port, because another process has it, does not say that it listens.
func TestPortNotOpened(t *testing.T) {
	address := free(t)
	held := portsOf("web-a", "ingress/web")
	held.Open = func(string) (net.Listener, error) { return nil, syscall.EADDRINUSE }
	if _, err := held.Listen(address); err != syscall.EADDRINUSE {
		t.Errorf("it cannot listen because %v", err)
	}
	opened(t, portsOf("more-a", "ingress/more"), address)
}

// TestPortOfUnknown: a proxy that does not know whose it is listens, and is no other's.
func TestPortOfUnknown(t *testing.T) {
	address := free(t)
	opened(t, portsOf("web-a", ""), address)
	opened(t, portsOf("more-a", "ingress/more"), address)
	opened(t, portsOf("web-b", ""), address)
}

// TestPortKnownLater: a proxy that learns whose it is when it listens already says so, for as long as it does.
func TestPortKnownLater(t *testing.T) {
	address := free(t)
	var set atomic.Value
	set.Store("")
	later := portsOf("web-a", "")
	later.Set = func() string { return set.Load().(string) }
	l := opened(t, later, address)
	opened(t, later, free(t)).Close()
	set.Store("ingress/web")
	_, port, _ := strings.Cut(address, ":")
	looks := listeningAt(port, "more-a", "ingress/more")
	await.True(t, "it says that it listens", func() bool {
		pod, is, err := looks.ofAnotherSet()
		return is && pod == "web-a" && err == nil
	})
	l.Close()
	await.True(t, "it says so no more", func() bool {
		_, is, err := looks.ofAnotherSet()
		return !is && err == nil
	})
}

// TestFrozen: one that listens and does nothing more is there, also when it cannot be reached any more.
func TestFrozen(t *testing.T) {
	address := free(t)
	_, port, _ := strings.Cut(address, ":")
	frozen, err := net.Listen("unix", socketOf(port, "web-frozen"))
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	other := portsOf("more-a", "ingress/more")
	seen := func() {
		t.Helper()
		if _, err := other.Listen(address); err == nil || !strings.Contains(err.Error(), "web-frozen") {
			t.Errorf("a frozen one is not seen: %v", err)
		}
	}
	seen()
	for err == nil {
		var conn net.Conn
		if conn, err = net.Dial("unix", frozen.Addr().String()); err == nil {
			conn.Close()
		}
	}
	seen()
	frozen.Close()
	opened(t, other, address)
}

// socketOf is where a pod of web says that it listens at a port.
func socketOf(port, pod string) string {
	at := listeningAt(port, pod, "ingress/web")
	return at.Socket(at.Own)
}

// TestSocketOfPort: whatever the pod's name, it has room, and the form of keys.
func TestSocketOfPort(t *testing.T) {
	for _, pod := range []string{"", "Web_0", strings.Repeat("long-", 60)} {
		if at := listeningAt("65535", pod, "ingress/web"); !keyForm.MatchString(at.Own) || len(at.Socket(at.Own)) > 108 {
			t.Errorf("pod %q says it at %s", pod, at.Socket(at.Own))
		}
	}
}

// TestPortOfOtherUser: who cannot share the port takes it from nobody by a name.
func TestPortOfOtherUser(t *testing.T) {
	of, looks := listeningAt("1", "web-a", "ingress/web"), listeningAt("1", "more-a", "ingress/more")
	l, err := of.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if pod, is, err := looks.ofAnotherSet(); pod != "web-a" || !is || err != nil {
		t.Errorf("found is %q, %v", pod, err)
	}
	looks.User++
	if pod, is, err := looks.ofAnotherSet(); is || err != nil {
		t.Errorf("found is %q, %v", pod, err)
	}
}
