package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	loginService = "org.freedesktop.login1"
	loginManager = loginService + ".Manager"
	loginPath    = dbus.ObjectPath("/org/freedesktop/login1")
	systemBus    = "/run/dbus/system_bus_socket"
)

// logind stands for systemd-logind on a node: the kubelet delays the shutdown that it announces.
type logind struct {
	bus *dbus.Conn
	// delays gets what is open for as long as the kubelet delays; delay is that.
	delays chan *os.File
	delay  *os.File
}

// startLogind starts a system bus on the node with a logind, and the kubelet again with
// this much time for pods at a shutdown.
func startLogind(ctx context.Context, t *testing.T, node *cluster.Node, grace time.Duration) *logind {
	t.Helper()
	socket, err := node.File(systemBus)
	if err != nil {
		t.Fatal(err)
	}
	startBus(ctx, t, node, socket)
	l := &logind{delays: make(chan *os.File, 1)}
	if err := harness.Wait(ctx, "the system bus", func() (bool, error) {
		l.bus, err = dbus.Connect("unix:path=" + socket)
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.bus.Close() })
	if err := l.serve(); err != nil {
		t.Fatal(err)
	}
	configure(ctx, t, node, fmt.Sprintf("shutdownGracePeriod: %s\nshutdownGracePeriodCriticalPods: 5s\n", grace))
	select {
	case l.delay = <-l.delays:
	case <-ctx.Done():
		t.Fatal("the kubelet does not ask for a delay of shutdowns")
	}
	return l
}

const busConfig = `<busconfig>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
</busconfig>
`

func startBus(ctx context.Context, t *testing.T, node *cluster.Node, socket string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "bus.conf")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, socket), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := node.Command(ctx, "dbus-daemon", "--nofork", "--config-file="+config)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
	})
}

// configure adds to the kubelet's configuration until the test is over. It is read when
// the kubelet starts: now, and when the node is powered on.
func configure(ctx context.Context, t *testing.T, node *cluster.Node, more string) {
	t.Helper()
	before, err := os.ReadFile(node.KubeletConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(node.KubeletConfig(), before, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(node.KubeletConfig(), append(before, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, act := range []func(context.Context, string) error{node.StopService, node.StartService} {
		if err := act(ctx, "kubelet"); err != nil {
			t.Fatal(err)
		}
	}
}

// serve takes logind's place on the bus.
func (l *logind) serve() error {
	if err := l.bus.ExportMethodTable(map[string]any{"Inhibit": l.inhibit}, loginPath, loginManager); err != nil {
		return err
	}
	properties := map[string]any{"Get": func(_, _ string) (dbus.Variant, *dbus.Error) {
		// InhibitDelayMaxUSec, all that a kubelet asks for. It would raise less than it needs.
		return dbus.MakeVariant(uint64(time.Hour.Microseconds())), nil
	}}
	if err := l.bus.ExportMethodTable(properties, loginPath, "org.freedesktop.DBus.Properties"); err != nil {
		return err
	}
	reply, err := l.bus.RequestName(loginService, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("the bus has a logind: %d", reply)
	}
	return err
}

func (l *logind) inhibit(_, _, _, _ string) (dbus.UnixFD, *dbus.Error) {
	read, write, err := os.Pipe()
	if err != nil {
		return -1, dbus.MakeFailedError(err)
	}
	// By then the answer has taken it to whoever asked.
	time.AfterFunc(time.Second, func() { _ = write.Close() })
	l.delays <- read
	return dbus.UnixFD(write.Fd()), nil
}

// shutDown announces the shutdown and returns when the kubelet does not delay it any more.
func (l *logind) shutDown() error {
	if err := l.bus.Emit(loginPath, loginManager+".PrepareForShutdown", true); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, l.delay)
	return err
}
