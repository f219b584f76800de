package lb

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

// node stands for a node: a real nginx, and a health check of its own beside it.
type node struct {
	server  Server
	nginx   *exec.Cmd
	exited  chan struct{}
	healthy atomic.Bool
}

const nginxConfig = `
daemon off; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
    server { listen 127.0.0.1:%[2]d reuseport; location / { add_header X-Node %[3]s; return 200 "ok\n"; } }
}`

func startNode(t *testing.T, name string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{exited: make(chan struct{})}
	n.healthy.Store(true)
	check := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !n.healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(check.Close)
	n.server = Server{Name: name, Address: "127.0.0.1", Port: freePort(t), CheckPort: check.Listener.Addr().(*net.TCPAddr).Port}

	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, n.server.Port, name), 0o644); err != nil {
		t.Fatal(err)
	}
	n.nginx = exec.Command("/usr/sbin/nginx", "-c", config)
	n.nginx.Stderr = os.Stderr
	n.nginx.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.nginx.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.nginx.Wait(); close(n.exited) }()
	t.Cleanup(n.kill)
	return n
}

// quit is nginx's graceful shutdown.
func (n *node) quit() { n.nginx.Process.Signal(syscall.SIGQUIT); <-n.exited }

// kill ends nginx's master and workers at once.
func (n *node) kill() { syscall.Kill(-n.nginx.Process.Pid, syscall.SIGKILL); <-n.exited }

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func startLB(t *testing.T, nodes ...*node) (*LB, Options) {
	t.Helper()
	options := Options{Dir: t.TempDir(), CheckInterval: 200 * time.Millisecond, Listen: map[Mode]string{
		HTTP: fmt.Sprintf("127.0.0.1:%d", freePort(t)), TCP: fmt.Sprintf("127.0.0.1:%d", freePort(t)),
	}}
	for _, n := range nodes {
		options.Servers = append(options.Servers, n.server)
	}
	balancer, err := Start(t.Context(), exec.CommandContext, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { balancer.Stop() })
	for _, n := range nodes {
		await(t, balancer.WaitUp, n.server.Name)
	}
	return balancer, options
}

func await(t *testing.T, wait func(context.Context, string) error, server string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := wait(ctx, server); err != nil {
		t.Fatal(err)
	}
}

// startTraffic sends through both frontends, 9 of 10 requests on kept connections.
func startTraffic(t *testing.T, o Options) *traffic.Run {
	t.Helper()
	run, err := traffic.Start(t.Context(), traffic.Options{Rate: 1000, Duration: time.Minute, Streams: []traffic.Stream{
		{Name: "http-kept", Address: o.Listen[HTTP], Share: 45, KeepAlive: true},
		{Name: "http-new", Address: o.Listen[HTTP], Share: 5},
		{Name: "tcp-kept", Address: o.Listen[TCP], Share: 45, KeepAlive: true, Lifetime: time.Second},
		{Name: "tcp-new", Address: o.Listen[TCP], Share: 5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Stop() })
	return run
}

func stop(t *testing.T, run *traffic.Run, balancer *LB) traffic.Report {
	t.Helper()
	report := run.Stop()
	if report.Rate < 900 || report.ByNode["one"] == 0 || report.ByNode["two"] == 0 {
		t.Errorf("the traffic was not what was wanted: %s%v", report, report.ByNode)
	}
	t.Logf("%s%s", report, balancer.Log())
	return report
}

// A server whose health check fails first may then close what it likes.
func TestNothingIsLostWhenTheCheckFailsFirst(t *testing.T) {
	one, two := startNode(t, "one"), startNode(t, "two")
	balancer, options := startLB(t, one, two)
	run := startTraffic(t, options)
	time.Sleep(time.Second)

	two.healthy.Store(false)
	await(t, balancer.WaitDown, "two")
	time.Sleep(1500 * time.Millisecond) // the kept connections' lifetime, and some
	two.quit()
	time.Sleep(time.Second)

	if r := stop(t, run, balancer); r.Failed != 0 {
		t.Errorf("%d of %d failed", r.Failed, r.Requests)
	}
}

func TestMoveCheck(t *testing.T) {
	one, other := startNode(t, "one"), startNode(t, "other")
	balancer, _ := startLB(t, one)
	other.healthy.Store(false)
	if err := balancer.MoveCheck("one", other.server.CheckPort); err != nil {
		t.Fatal(err)
	}
	await(t, balancer.WaitDown, "one")
	one.healthy.Store(false)
	other.healthy.Store(true)
	await(t, balancer.WaitUp, "one")
}

// The control: the same stop without the check failing first must be seen to lose.
func TestLossIsSeenWhenAServerIsKilled(t *testing.T) {
	one, two := startNode(t, "one"), startNode(t, "two")
	balancer, options := startLB(t, one, two)
	run := startTraffic(t, options)
	time.Sleep(time.Second)

	two.kill()
	time.Sleep(500 * time.Millisecond)
	two.healthy.Store(false)
	await(t, balancer.WaitDown, "two")

	r := stop(t, run, balancer)
	for _, stream := range []string{"http-kept", "http-new", "tcp-kept", "tcp-new"} {
		if r.Streams[stream].Failed == 0 {
			t.Errorf("stream %s lost nothing", stream)
		}
	}
}

func TestDisableDrainEnable(t *testing.T) {
	one, two := startNode(t, "one"), startNode(t, "two")
	balancer, options := startLB(t, one, two)
	run := startTraffic(t, options)

	for status, take := range map[Status]func(string) error{Maint: balancer.Disable, Drain: balancer.Drain} {
		if err := take("one"); err != nil {
			t.Fatal(err)
		}
		await(t, balancer.WaitDown, "one")
		time.Sleep(1200 * time.Millisecond)
		servers, err := balancer.Servers()
		if err != nil || len(servers) != 4 {
			t.Fatalf("%v, servers %+v", err, servers)
		}
		for _, s := range servers {
			if s.Name == "one" && (s.Status != status || s.CurrentSessions != 0) || s.Name == "two" && s.Status != Up {
				t.Errorf("expected one %s and idle, two up: %+v", status, s)
			}
		}
		before := run.Snapshot().ByNode["one"]
		time.Sleep(200 * time.Millisecond)
		if after := run.Snapshot().ByNode["one"]; after != before {
			t.Errorf("%d requests reached a server that is %s", after-before, status)
		}
		if err := balancer.Enable("one"); err != nil {
			t.Fatal(err)
		}
		await(t, balancer.WaitUp, "one")
		for deadline := time.Now().Add(10 * time.Second); run.Snapshot().ByNode["one"] == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no request reached a server that was %s and is enabled again", status)
			}
		}
	}
	if r := stop(t, run, balancer); r.Failed != 0 {
		t.Errorf("%d of %d failed", r.Failed, r.Requests)
	}
	if err := balancer.Disable("three"); err == nil || !strings.Contains(err.Error(), "no server three") {
		t.Errorf("got %v", err)
	}
}

func TestStartTellsWhyItFailed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server := Server{Name: "one", Address: "127.0.0.1", Port: 1}
	for want, options := range map[string]Options{
		"no directory":         {},
		"no address to listen": {Dir: t.TempDir()},
		"mode":                 {Dir: t.TempDir(), Listen: map[Mode]string{"udp": "127.0.0.1:1"}},
		"are needed":           {Dir: t.TempDir(), Listen: map[Mode]string{TCP: "127.0.0.1:1"}, Servers: []Server{{}}},
		"cannot bind":          {Dir: t.TempDir(), Listen: map[Mode]string{TCP: taken.Addr().String()}, Servers: []Server{server}},
	} {
		if _, err := Start(t.Context(), exec.CommandContext, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, got %v", want, err)
		}
	}
}
