package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// runs says in the environment of a process that it is the program, and not its tests.
const runs = "PROXY_RUNS"

func TestMain(m *testing.M) {
	if os.Getenv(runs) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience is for how long a test waits for what is to come.
const patience = 30 * time.Second

var web = types.NamespacedName{Namespace: "ingress", Name: "web"}

// replica is a controller on loopback, with an authority of its own.
type replica struct {
	*delta.Server
	set       types.NamespacedName
	address   string
	authority []byte
	// stop ends it and its streams.
	stop func()
	// reports are of its streams, connections is how many were made to it.
	reports     chan delta.Report
	connections atomic.Int64
}

// counting is a listener that counts connections.
type counting struct {
	net.Listener
	count *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.count.Add(1)
	return conn, err
}

// newReplica lets in who shows that token, as web's.
func newReplica(t *testing.T, token string) *replica {
	t.Helper()
	return newReplicaOf(t, token, web)
}

func newReplicaOf(t *testing.T, token string, set types.NamespacedName) *replica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := selfsigned.For(t, delta.ServerName)
	r := &replica{set: set, address: l.Addr().String(), authority: own.Chain, reports: make(chan delta.Report, 100)}
	r.Server = delta.NewServer(delta.Options{
		Identify: func(ctx context.Context) (delta.Peer, error) {
			if delta.TokenOf(ctx) != token {
				return delta.Peer{}, status.Error(codes.Unauthenticated, "another token")
			}
			return delta.Peer{IngressDaemonSet: set, Pod: set.Name + "-0"}, nil
		},
		Report: func(said delta.Report) { r.reports <- said },
	})
	g := r.GRPC(grpc.Creds(delta.Present(func() (*tls.Certificate, error) { return &own.Certificate, nil })))
	done := make(chan bool)
	go func() {
		defer close(done)
		g.Serve(counting{l, &r.connections})
	}()
	r.stop = sync.OnceFunc(func() {
		g.Stop()
		<-done
	})
	t.Cleanup(r.stop)
	return r
}

// commit tells proxies, of which none refuses anything that the controller itself would.
func (r *replica) commit(t *testing.T, set ...wire.Resource) {
	t.Helper()
	if _, refused := r.Commit(r.set, set, nil); len(refused) > 0 {
		t.Fatalf("refused is %v", refused)
	}
}

// acknowledged waits until all up to a position is.
func (r *replica) acknowledged(t *testing.T, position uint64) delta.Report {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case said := <-r.reports:
			if said.Position >= position && !said.Ended {
				return said
			}
		case <-late:
			t.Fatalf("position %d is not acknowledged", position)
		}
	}
}

// all sends all requests that come in at a port to an endpoint.
func all(port uint16, endpoint wire.Endpoint) []wire.Resource {
	const name = "shop/cheddar:80"
	return []wire.Resource{
		{Name: name, Endpoints: &wire.Endpoints{All: []wire.Endpoint{endpoint}}},
		{Name: name, Backend: &wire.Backend{Port: 80}},
		{Name: "web", Listener: &wire.Listener{Object: wire.Object{Kind: "Gateway", Namespace: "shop", Name: "web"}, Section: "web", Port: port}},
		{Name: "all", Route: &wire.Route{Object: wire.Object{Kind: "HTTPRoute", Namespace: "shop", Name: "all"}, Listeners: []string{"web"},
			Backends: []wire.Share{{Backend: name, Weight: 1}}}},
	}
}

// serving is the endpoint of a server that ends with the test.
func serving(t *testing.T, h http.HandlerFunc) wire.Endpoint {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	a := netip.MustParseAddrPort(s.Listener.Addr().String())
	return wire.Endpoint{Address: a.Addr().String(), Port: a.Port(), UID: a.String()}
}

// saying answers every request with that text.
func saying(t *testing.T, text string) wire.Endpoint {
	return serving(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
}

// pod is where a proxy runs, one process after the other.
type pod struct {
	directory string
	// port is that of the tests' listener.
	port *loopback.Port
}

// newPod has a token, a free port, and no controller.
func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{t.TempDir(), loopback.Held(t)}
	p.port.Free(t)
	for _, folder := range []string{"controller", "snapshot"} {
		if err := os.Mkdir(filepath.Join(p.directory, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.write(t, "token", "first")
	return p
}

func (p *pod) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.directory, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// leadTo has the next stream go to a controller.
func (p *pod) leadTo(t *testing.T, r *replica) {
	t.Helper()
	p.write(t, "controller/ca.crt", string(r.authority))
	p.write(t, "controller/address", r.address+"\n")
}

func (p *pod) socket() string { return filepath.Join(p.directory, "ready.sock") }

// got is what a GET at the pod's port is answered, or why it is not.
func (p *pod) got(path string) string {
	return got(fmt.Sprintf("http://127.0.0.1:%d%s", p.port.Number, path))
}

func got(url string) string { return gotWithin(patience, url) }

func gotWithin(timeout time.Duration, url string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: timeout}
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// unready is why the proxy is not ready, empty where it is.
func (p *pod) unready() string {
	if err := askReady(p.socket()); err != nil {
		return err.Error()
	}
	return ""
}

// process is the program while it runs.
type process struct {
	*exec.Cmd
	log *lines
	// ended is closed when it has.
	ended chan bool
}

// start runs the proxy until the test ends, at the latest. It serves no metrics and no console unless it is told to.
func (p *pod) start(t *testing.T, more ...string) *process {
	t.Helper()
	in := func(name string) string { return filepath.Join(p.directory, name) }
	return start(t, append([]string{"--controller-dir=" + in("controller"), "--token-file=" + in("token"), "--snapshot-dir=" + in("snapshot"),
		"--ready-socket=" + p.socket(), "--metrics-address=", "--console=", "--drain-delay=0", "--drain-idle=0"}, more...)...)
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	r := &process{exec.Command(os.Args[0], args...), &lines{}, make(chan bool)}
	r.Env = append(os.Environ(), runs+"=1")
	r.Stderr, r.Stdout = r.log, r.log
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.Process.Kill()
		<-r.ended
		if t.Failed() {
			t.Logf("%q said:\n%s", args, r.log)
		}
	})
	return r
}

// probe is the program as a readiness probe.
func (p *pod) probe(t *testing.T) *process { return start(t, "ready", "--socket="+p.socket()) }

// signal sends one.
func (r *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// code is its exit code, when it has ended.
func (r *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
		return r.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("it does not end")
		return 0
	}
}

// lines are those of a log.
type lines struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.String()
}

// saying waits for a line that has a text.
func (r *process) saying(t *testing.T, text string) {
	t.Helper()
	await.True(t, "it says: "+text, func() bool { return r.log.with(text) > 0 })
}

// with is how many lines have a text.
func (l *lines) with(text string) (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
