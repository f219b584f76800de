package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

func TestUnready(t *testing.T) {
	held := map[uint16]string{443: "permission denied", 80: "address already in use"}
	for name, test := range map[string]struct {
		state state
		want  string
	}{
		"all is there":               {state{applied: true}, ""},
		"at first":                   {state{}, "no controller has told it what to serve, and there is no snapshot"},
		"ports are held":             {state{applied: true, missing: held}, "it cannot listen at port 80: address already in use, port 443: permission denied"},
		"it drains":                  {state{applied: true, draining: true}, "it drains, and then ends"},
		"it drains, without a table": {state{draining: true}, "it drains, and then ends"},
		"it drains, ports are held":  {state{applied: true, missing: held, draining: true}, "it drains, and then ends"},
	} {
		if got := test.state.unready(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestLook: what is applied while somebody looks is not ready where its ports are held.
func TestLook(t *testing.T) {
	var held map[uint16]string
	applied := func() bool {
		held = map[uint16]string{80: "address already in use"}
		return true
	}
	s := look(applied, func() map[uint16]string { return held }, func() bool { return false })
	if s.unready() == "" {
		t.Error("it is ready, and does not listen")
	}
}

// TestOnceReady: a port that is lost later takes nothing from who was ready. A drain does.
func TestOnceReady(t *testing.T) {
	held := map[uint16]string{80: "address already in use"}
	c := &condition{applied: func() bool { return true }, missing: func() map[uint16]string { return held }}
	if c.unready() == "" {
		t.Error("at first it is ready without its port")
	}
	held = nil
	if why := c.unready(); why != "" {
		t.Errorf("with its port it is not ready: %s", why)
	}
	held = map[uint16]string{80: "address already in use"}
	if why := c.unready(); why != "" {
		t.Errorf("without the port later it is not ready: %s", why)
	}
	if c.draining.Store(true); c.unready() == "" {
		t.Error("it drains, and is ready")
	}
}

// TestReadySocket: it is its owner's alone, takes the place of one that was left behind, and of nothing else.
func TestReadySocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "ready.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if err := askReady(socket); err == nil {
		t.Error("nobody is there, and is ready")
	}
	var reason atomic.Value
	reason.Store("later")
	r, err := listenReady(socket, slog.New(slog.DiscardHandler), func() string { return reason.Load().(string) })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if info, err := os.Stat(socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if err := askReady(socket); err == nil || err.Error() != "not ready: later" {
		t.Errorf("asked, it says %v", err)
	}
	if answer, err := ask(socket); err != nil {
		t.Errorf("it is not ready and is not alive: %q, %v", answer, err)
	}
	reason.Store("")
	if err := askReady(socket); err != nil {
		t.Errorf("asked, it says %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := listenReady(file, r.log, r.unready); err == nil {
		r.Close()
		t.Error("a socket takes the place of a file")
	}
	if b, _ := os.ReadFile(file); string(b) != "mine" {
		t.Errorf("the file has %q", b)
	}
}

// TestAnswersOfOthers: a proxy is not ready that says nothing, only a part, or does not answer in time.
func TestAnswersOfOthers(t *testing.T) {
	for answer, want := range map[string]string{"": "does not say why", "rea": "rea", "never": "i/o timeout"} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "ready.sock"))
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan error)
		go func() { asked <- askReady(l.Addr().String()) }()
		if answer != "never" {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, answer)
			conn.Close()
		}
		if err := <-asked; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("where the answer is %q it says %v", answer, err)
		}
		l.Close()
	}
}

// TestServeAgain: what does not go on is served again until the end, and the reason is said once.
func TestServeAgain(t *testing.T) {
	log := &lines{}
	ctx, end := context.WithCancel(t.Context())
	n := 0
	serveAgain(ctx, slog.New(slog.NewTextHandler(log, nil)), "it", func() error {
		if n++; n == 3 {
			end()
			return nil
		}
		return os.ErrPermission
	})
	if said := log.with("it cannot be served"); n != 3 || said != 1 {
		t.Errorf("it was served %d times, and said %d times that it is not", n, said)
	}
}

// TestPortsAreSaidOnce: once for as long as the reason is the same.
func TestPortsAreSaidOnce(t *testing.T) {
	log := &lines{}
	server := proxy.NewServer(proxy.Defaults())
	defer server.Close()
	p := newPorts(server, slog.New(slog.NewTextHandler(log, nil)))
	held, denied := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", os.ErrExist)}, &net.OpError{Op: "listen", Err: os.ErrPermission}
	for i, test := range []struct {
		unavailable []proxy.Unavailable
		said        int
	}{
		{[]proxy.Unavailable{{Port: 80, Err: held}}, 1},
		{[]proxy.Unavailable{{Port: 80, Err: held}}, 1},
		{[]proxy.Unavailable{{Port: 80, Err: held}, {Port: 443, Err: held}}, 2},
		{[]proxy.Unavailable{{Port: 80, Err: denied}, {Port: 443, Err: held}}, 3},
		{nil, 3},
		{[]proxy.Unavailable{{Port: 80, Err: held}}, 4},
	} {
		p.note(test.unavailable)
		if got := log.with("a port cannot be listened at"); got != test.said || len(p.unavailable()) != len(test.unavailable) {
			t.Errorf("after %d it was said %d times, and %v are not listened at", i, got, p.unavailable())
		}
	}
	if log.with("is listened at now") > 0 {
		t.Error("a port that the table has no more is said to be listened at")
	}
}

// TestTriedAgain: a port that cannot be listened at is tried 50 ms after a transaction, half as often each time, and in the
// end every second; and soon again after the next transaction.
func TestTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var tries []time.Duration
		o := proxy.Defaults()
		o.Listen = func(string) (net.Listener, error) {
			tries = append(tries, time.Since(begun))
			return nil, syscall.EADDRINUSE
		}
		server := proxy.NewServer(o)
		defer server.Close()
		p := newPorts(server, slog.New(slog.DiscardHandler))
		p.changed = func() {}
		ctx, stop := context.WithCancel(t.Context())
		var trying sync.WaitGroup
		trying.Go(func() { p.keepTrying(ctx) })
		defer trying.Wait()
		defer stop()
		changes := table.Changes{Set: all(8080, wire.Endpoint{Address: "10.0.0.1", Port: 80, UID: "pod"})}
		p.apply(changes)
		time.Sleep(4 * time.Second)
		p.apply(changes)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		ms := func(all ...int) (out []time.Duration) {
			for _, n := range all {
				out = append(out, time.Duration(n)*time.Millisecond)
			}
			return out
		}
		if want := ms(0, 50, 150, 350, 750, 1550, 2550, 3550, 4000, 4050); !slices.Equal(tries, want) {
			t.Errorf("it is tried at %v, want %v", tries, want)
		}
	})
}
