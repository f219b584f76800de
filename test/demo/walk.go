package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// walkPage is the guide that is played, by its commands, and walkSections which of it.
const walkPage = "docs/guides/ingress.md"

var walkSections = []string{
	"The proxies", "Three cheeses", "An Ingress for each", "A plate of cheese", "What an operator sees", "A canary that moves",
	"Two classes", "TLS", "The console",
}

// atFront is the line of the page after which requests go to the load balancer, and forwarding the one that leads to the
// console: here that is where the course has its page.
const (
	atFront    = "export ADDRESS=$NODE"
	forwarding = "kubectl port-forward $(kubectl get pods -l app=proxy -o name | head -n 1) 9080"
	atConsole  = `curl -s "http://$NODE:8080/json?q=cheeseplate" | grep -E '"(host|backend|percent|ready)":'`
)

// walk is the guide as it is played.
type walk struct {
	harness *harness.Harness
	shell   *harness.Shell
	screen  *screen
}

// playWalk plays the guide to Ingresses, with HAProxy in front of the nodes: each command, and what came back.
func playWalk(ctx context.Context, o options) (err error) {
	defer func() { err = errors.Join(err, end(ctx, o, goOn(o))) }()
	heading("A cluster of %d nodes, each with a kernel network, containerd and kubelet of its own", nodes)
	s, err := harness.SetUp(ctx, cluster.Options{Nodes: nodes, Dir: o.dir, Log: os.Stdout})
	if err != nil {
		return err
	}
	w := &walk{harness: s, screen: newScreen(os.Stdout)}
	if w.shell, err = shellIn(ctx, s); err != nil {
		return err
	}
	return w.play(ctx)
}

// goOn is what may be done with a cluster that is kept.
func goOn(o options) string {
	return fmt.Sprintf("export KUBECONFIG=%s PATH=%s:$PATH; then go on in %s, with addresses of nodes, since HAProxy has ended. The console is at port 8080, of a node or by kubectl port-forward",
		filepath.Join(o.dir, "kubeconfig"), filepath.Join(o.dir, "bin"), walkPage)
}

// play plays the sections.
func (w *walk) play(ctx context.Context) error {
	page, err := os.ReadFile(filepath.Join(w.harness.Root(), walkPage))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the walk takes longer than %s", patience))
	defer cancel()
	for _, section := range walkSections {
		heading("%s", section)
		for _, line := range docs.Commands(docs.Section(string(page), section)) {
			if err := w.enter(ctx, line); err != nil {
				return fmt.Errorf("%s: %w", line, errors.Join(err, context.Cause(ctx)))
			}
		}
	}
	fmt.Printf("\nThis was %s, but for the default class, the old annotation and the Gateway API.\n", walkPage)
	return nil
}

// shellIn is a shell in a folder with all that the guide names. The console is at the nodes' port 8080.
func shellIn(ctx context.Context, s *harness.Harness) (*harness.Shell, error) {
	bin, err := s.LinkKubectl(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir(), "walk")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	shell := s.Shell(dir, bin)
	shell.Out = os.Stdout
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(s.Root(), "examples"))); err != nil {
		return nil, err
	}
	return shell, showConsole(filepath.Join(dir, "examples", "proxy.yaml"))
}

// showConsole has the proxies of a manifest show their console to whoever reaches a node, as the course's do.
func showConsole(file string) error {
	manifest, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const last = "        - --metrics-address=[$(POD_IP)]:9081\n"
	shown := strings.Replace(string(manifest), last, last+"        - --console=:8080\n", 1)
	if shown == string(manifest) {
		return fmt.Errorf("%s has other flags now", file)
	}
	return os.WriteFile(file, []byte(shown), 0o644)
}

// enter shows a line and runs it, or what is run here in its place.
func (w *walk) enter(ctx context.Context, line string) error {
	if instead, replaced := docs.Instead[line]; replaced && instead.Run == "" {
		return nil
	}
	switch line {
	case atFront:
		if err := w.front(ctx); err != nil {
			return err
		}
		line = "export ADDRESS=" + w.harness.HostIP()
	case forwarding:
		line = atConsole
	}
	fmt.Println(w.screen.paint(bold, "$ "+line))
	_, err := w.shell.Enter(ctx, docs.ReachesNodes(line), line)
	return err
}

// front puts HAProxy in front of the nodes at the ports of the proxies, until ctx ends.
func (w *walk) front(ctx context.Context) error {
	defer w.harness.Step("starting HAProxy at %s, ports 80 and 443, which asks port %d of each node", w.harness.HostIP(), checkPort).Done()
	for _, port := range []int{80, 443} {
		if _, err := w.harness.Front(ctx, harness.Ports{Traffic: port, Check: checkPort, At: port}); err != nil {
			return err
		}
	}
	return nil
}
