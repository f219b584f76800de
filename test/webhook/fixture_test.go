// Package webhook runs examples/webhook-haproxy beside real HAProxies under traffic,
// and asks it as the controller does.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
)

const (
	root = "../.."
	// patient is for what takes a moment on a machine that is not busy.
	patient = 30 * time.Second
	// slow is how long some of the requests last.
	slow = 2 * time.Second
)

// receiver is the path of the example, built once.
var receiver string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "webhook-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	receiver = filepath.Join(dir, "webhook-haproxy")
	build := exec.Command("go", "build", "-o", receiver, "./examples/webhook-haproxy")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the example: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// node stands for a node whose proxy can be held, made sick, stopped and started.
type node struct {
	*testing.T
	name, address string
	server        *http.Server
	healthy       atomic.Bool
	// underWay and answered count requests, without health checks, and refused those of them
	// that failed.
	underWay, answered, refused atomic.Int64
	// held gets the name of the node that a request for /hold reached; release ends it.
	held    chan<- string
	release <-chan struct{}
}

func startNode(t *testing.T, name string, held chan<- string, release <-chan struct{}) *node {
	t.Helper()
	n := &node{T: t, name: name, address: ownAddress(t), held: held, release: release}
	n.healthy.Store(true)
	n.start()
	t.Cleanup(func() { n.server.Close() })
	return n
}

func (n *node) start() {
	n.Helper()
	listener, err := shared.Listen(n.Context(), "tcp", n.address)
	if err != nil {
		n.Fatal(err)
	}
	n.server = &http.Server{Handler: n}
	go n.server.Serve(listener)
}

// stop closes the listener and all connections at once, as a proxy that is killed.
func (n *node) stop() { n.server.Close() }

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		if !n.healthy.Load() {
			n.refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	n.underWay.Add(1)
	defer n.underWay.Add(-1)
	n.answered.Add(1)
	switch r.URL.Path {
	case "/hold":
		n.held <- n.name
		<-n.release
	case "/slow":
		time.Sleep(slow)
	}
	w.Header().Set("X-Node", n.name)
	fmt.Fprintln(w, "ok")
}

func (n *node) member() lb.Server {
	address, err := net.ResolveTCPAddr("tcp", n.address)
	if err != nil {
		n.Fatal(err)
	}
	return lb.Server{Name: n.name, Address: address.IP.String(), Port: address.Port}
}

// asked is the node as the controller names it.
func (n *node) asked() webhook.Node {
	return webhook.Node{Name: n.name, Addresses: []webhook.Address{{Type: "InternalIP", Address: n.member().Address}}}
}

// shared opens ports that others of the same user hold with SO_REUSEPORT, as HAProxy does.
var shared = func() net.ListenConfig {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		failed := conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, failed)
	}}
	config.SetMultipathTCP(false)
	return config
}()

// ownAddress is one of the loopback interface that belongs to the test until its end,
// also while nothing listens there: a socket that is bound to it, and gets no
// connections because it does not listen, keeps everybody out who does not share.
func ownAddress(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*unix.SockaddrInet4).Port))
}

// TestAddressesStayTheirOwn has others try to take an address that is chosen and not used yet.
func TestAddressesStayTheirOwn(t *testing.T) {
	t.Parallel()
	address := ownAddress(t)
	_, port, _ := net.SplitHostPort(address)
	for _, other := range []string{address, ":" + port} {
		if listener, err := net.Listen("tcp4", other); err == nil {
			listener.Close()
			t.Errorf("somebody else listens on %s", other)
		}
	}
	if listens(address) {
		t.Error("what keeps the address is connected to")
	}
	n := &node{T: t, name: "one", address: address}
	for range 2 {
		n.start()
		if !listens(address) {
			t.Error("who has chosen the address is not connected to")
		}
		n.stop()
	}
}

// balancer is a HAProxy with an http and a tcp backend of the nodes.
type balancer struct {
	*lb.LB
	listen map[lb.Mode]string
	socket string
}

// startBalancer waits until all nodes are up.
func startBalancer(t *testing.T, nodes ...*node) *balancer {
	t.Helper()
	b := launchBalancer(t, lb.Options{CheckInterval: 200 * time.Millisecond}, nodes...)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for _, n := range nodes {
		if err := b.WaitUp(ctx, n.name); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func launchBalancer(t *testing.T, options lb.Options, nodes ...*node) *balancer {
	t.Helper()
	b := &balancer{listen: map[lb.Mode]string{lb.HTTP: ownAddress(t), lb.TCP: ownAddress(t)}}
	// Paths of sockets must be short.
	dir, err := os.MkdirTemp("", "lb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b.socket = filepath.Join(dir, "admin.sock")
	options.Dir, options.Listen, options.CheckPath = dir, b.listen, "/healthz"
	for _, n := range nodes {
		options.Servers = append(options.Servers, n.member())
	}
	b.LB, err = lb.Start(t.Context(), exec.CommandContext, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop() })
	return b
}

// is tells whether the server is so in all backends.
func (b *balancer) is(t *testing.T, server string, status lb.Status) bool {
	t.Helper()
	servers, err := b.Servers()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range servers {
		if s.Name == server && s.Status != status {
			return false
		}
		found = found || s.Name == server
	}
	return found
}

// process is the example, running.
type process struct {
	*testing.T
	listen string
	args   []string
	secret []byte
	cmd    *exec.Cmd
}

// startReceiver runs the example for HAProxies with these sockets.
func startReceiver(t *testing.T, sockets ...string) *process {
	t.Helper()
	p := &process{T: t}
	var file string
	file, p.secret = newSecret(t, "a")
	p.args = []string{"-listen", "127.0.0.1:0", "-secret-file", file}
	for _, socket := range sockets {
		p.args = append(p.args, "-socket", socket)
	}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// newSecret is one of many equal letters.
func newSecret(t *testing.T, letter string) (file string, secret []byte) {
	t.Helper()
	secret = []byte(strings.Repeat(letter, 64))
	file = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, append(secret, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, secret
}

func (p *process) start() {
	p.Helper()
	p.cmd = exec.Command(receiver, p.args...)
	p.listen = startListening(p.T, p.cmd)
}

// startListening starts a receiver and gives the address that it says it listens on.
func startListening(t *testing.T, receiver *exec.Cmd) string {
	t.Helper()
	said := &report{output: t.Output(), address: make(chan string, 1)}
	receiver.Stderr = said
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case address := <-said.address:
		return address
	case <-time.After(patient):
		t.Fatal("the receiver does not say that it listens")
		return ""
	}
}

// report passes on what a receiver says, and the address in it once.
type report struct {
	output  io.Writer
	text    []byte
	told    bool
	address chan string
}

var listening = regexp.MustCompile(`listening address=(\S+)\n`)

func (r *report) Write(p []byte) (int, error) {
	r.text = append(r.text, p...)
	if found := listening.FindSubmatch(r.text); found != nil && !r.told {
		r.address <- string(found[1])
		r.told = true
	}
	return r.output.Write(p)
}

func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// client asks the receiver as the controller does.
func (p *process) client(timeout time.Duration) *webhook.Client {
	p.Helper()
	c, err := webhook.New(webhook.Options{URL: "http://" + p.listen, Secret: p.secret, Timeout: timeout})
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// ask asks once, and wants an answer.
func (p *process) ask(action webhook.Action, n webhook.Node) webhook.Answer {
	p.Helper()
	answer, err := p.tryAsk(action, n)
	if err != nil {
		p.Fatal(err)
	}
	return answer
}

func (p *process) tryAsk(action webhook.Action, n webhook.Node) (webhook.Answer, error) {
	p.Helper()
	return p.client(patient).Ask(p.Context(), webhook.Request{ID: "test", Action: action, Node: n, Reason: "a test"})
}

// eventually waits on a machine that may be busy with other tests.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	is := func(context.Context) (bool, error) { return condition(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patient, true, is); err != nil {
		t.Fatalf("it never came true that %s", what)
	}
}
