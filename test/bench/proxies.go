package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/http1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// What both serve: two paths of a host, by two backends of four endpoints each.
const (
	exampleHost          = "example.com"
	smallPath, largePath = "/small", "/large"
	smallBody, largeBody = 1 << 10, 1 << 20
	endpointsEach        = 4
)

// proxies are the proxy and nginx, with what they need: endpoints, and for the proxy who tells it what to serve.
// Endpoints and clients are this process's. All of it is on loopback.
type proxies struct {
	dir     string
	program string
	teller  *teller
	// small and large are endpoints, by their answers.
	small, large []net.Addr
	certificate  selfsigned.Certificate
	running      []*running
}

// withProxies runs f with them, and ends all that it started.
func withProxies(ctx context.Context, pkg string, f func(context.Context, *proxies) error) (err error) {
	p := &proxies{small: endpoints(smallBody), large: endpoints(largeBody)}
	if p.dir, err = os.MkdirTemp("", "bench-proxies-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	root, err := projectRoot(ctx)
	if err != nil {
		return err
	}
	if p.program, err = buildProgram(ctx, root, filepath.Join(p.dir, "bin"), pkg); err != nil {
		return err
	}
	if p.certificate, err = selfsigned.Make(time.Now().Add(24*time.Hour), exampleHost); err != nil {
		return err
	}
	if p.teller, err = startTeller(); err != nil {
		return err
	}
	defer p.teller.close()
	defer func() {
		for _, r := range p.running {
			err = errors.Join(err, r.end())
		}
	}()
	return f(ctx, p)
}

// endpoints answer with bodies of that many bytes, until this process ends.
func endpoints(body int) (all []net.Addr) {
	for range endpointsEach {
		all = append(all, http1.Serve(http1.Body(body)))
	}
	return all
}

// ports are where a proxy, or nginx, listens for both kinds of connections.
type ports struct{ plain, tls uint16 }

func (p ports) addresses() (plain, secured string) { return loopbackAt(p.plain), loopbackAt(p.tls) }

func loopbackAt(port uint16) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String()
}

func freePorts() (p ports, err error) {
	for _, port := range []*uint16{&p.plain, &p.tls} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, err
		}
		defer l.Close()
		*port = uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return p, nil
}

// startProxy starts one, as in a pod but for its console, and tells it what to serve.
func (p *proxies) startProxy(ctx context.Context, name string, told ...wire.Resource) (*running, error) {
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700); err != nil {
		return nil, err
	}
	if err := writeController(dir, p.teller.authority, p.teller.address, name); err != nil {
		return nil, err
	}
	r, err := p.start(name, proxyCommand(ctx, p.program, dir, name))
	if err != nil {
		return nil, err
	}
	if err := p.teller.tell(ctx, name, told); err != nil {
		return nil, fmt.Errorf("%w: %s", err, r.said())
	}
	return r, nil
}

// proxyCommand has a proxy find in its folder what a pod mounts: the controller, and a place for snapshots.
func proxyCommand(ctx context.Context, program, dir, name string) *exec.Cmd {
	return exec.CommandContext(ctx, program, "--pod-name="+name, "--controller-dir="+dir, "--token-file="+filepath.Join(dir, "token"),
		"--snapshot-dir="+filepath.Join(dir, "snapshot"), "--ready-socket="+filepath.Join(dir, "ready.sock"), "--metrics-address=127.0.0.1:0", "--console=",
		"--drain-delay=0s", "--drain-idle=0s", "--drain-timeout=5s")
}

func (p *proxies) start(name string, cmd *exec.Cmd) (*running, error) {
	r, err := startGroup(filepath.Join(p.dir, name+".log"), name, cmd)
	if err == nil {
		p.running = append(p.running, r)
	}
	return r, err
}
