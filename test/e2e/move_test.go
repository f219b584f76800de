package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The page that TestMoveFromADaemonSet plays, and the label by which its nodes move.
const movePage, movedLabel = "docs/guides/migrate.md", "example.com/ingress"

// TestMoveFromADaemonSet runs the commands of that page, as they stand there: nodes go over one after the
// other, all of them back, and over again for good, behind a load balancer that checks each server on its
// own port, half of the requests through a frontend in http mode and half through one in tcp mode. In the
// control the first node moves in the same way, but for the commands that speak to the load balancer.
func TestMoveFromADaemonSet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	t.Cleanup(func() { _ = theHarness.Kubectl(context.Background(), "label", "nodes", "--all", movedLabel+"-").Run() })
	m := openMove(ctx, t)
	m.play(ctx, "Prepare", nil)
	first := m.fleet.Nodes()[0]

	control, _ := m.send(ctx, func() { m.untold(ctx, "Move a node", first) })
	t.Logf("control: %d of %d requests failed", control.Failed, control.Requests)
	if control.Failed == 0 {
		t.Error("the control lost nothing, so that the test proves nothing")
	}
	m.untold(ctx, "Move a node back", first)

	report, log := m.send(ctx, func() {
		for _, section := range []string{"Move a node", "Move a node back", "Move a node"} {
			for _, n := range m.fleet.Nodes() {
				m.play(ctx, section, n)
			}
		}
		m.finish(ctx)
	})
	if losesNothing(t, report); t.Failed() {
		t.Log(happened(&harness.Story{}, log))
	}
}

// move is a reader of the page, who moves a DaemonSet to an IngressDaemonSet.
type move struct {
	*testing.T
	page  string
	fleet *harness.Fleet
	// dir is where commands run, bin where they find kubectl and the plugin.
	dir, bin, kubeconfig string
	front                *lb.LB
}

// openMove has the page's DaemonSet run on every node.
func openMove(ctx context.Context, t *testing.T) *move {
	t.Helper()
	namespace := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	m := &move{
		T: t, page: string(readFile(t, filepath.Join(root, movePage))), dir: t.TempDir(), bin: t.TempDir(),
		fleet: &harness.Fleet{Harness: theHarness, Key: types.NamespacedName{Namespace: namespace, Name: "nginx"}},
	}
	m.must(theHarness.MakeNamespace(ctx, namespace))
	t.Cleanup(func() { scenario{}.close(t, namespace) })
	m.install(ctx)
	m.must(theHarness.Apply(ctx, namespace, m.manifest()))
	m.run(ctx, "kubectl rollout status daemonset/nginx --timeout=3m", nil)
	return m
}

// manifest is the DaemonSet of the page, with the ConfigMap that it names, and keep-away.yaml is written where
// the page's commands read it.
func (m *move) manifest() harness.Manifest {
	m.Helper()
	example, err := theHarness.Example("nginx.yaml")
	m.must(err)
	out := harness.Manifest{example.Kind("ConfigMap")}
	kept := false
	for _, block := range docs.Blocks(m.page, "yaml") {
		switch {
		case strings.Contains(block, "\nkind: DaemonSet\n"):
			ds, err := harness.ParseManifest([]byte(block))
			m.must(err)
			out = append(out, ds...)
		case strings.Contains(block, "OnDelete"):
			m.must(os.WriteFile(filepath.Join(m.dir, "keep-away.yaml"), []byte(block), 0o644))
			kept = true
		}
	}
	if len(out) != 2 || !kept {
		m.Fatalf("%s does not show a DaemonSet, and how to keep it away", movePage)
	}
	return out
}

// install puts what the page's commands need where they find it; kubectl means the test's namespace.
func (m *move) install(ctx context.Context) {
	m.Helper()
	plugin, err := theHarness.BuildTool(ctx, "./cmd/kubectl-ids")
	m.must(err)
	m.kubeconfig = filepath.Join(m.dir, "kubeconfig")
	m.must(errors.Join(
		os.Symlink(theHarness.Kubectl(ctx).Path, filepath.Join(m.bin, "kubectl")),
		os.Symlink(plugin, filepath.Join(m.bin, "kubectl-ids")),
		os.WriteFile(m.kubeconfig, readFile(m.T, theHarness.Kubeconfig()), 0o600),
	))
	m.run(ctx, "kubectl config set-context --current --namespace="+m.fleet.Key.Namespace, nil)
}

func (m *move) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// commands are those of a section, of which a page without them has none to play.
func (m *move) commands(section string) []string {
	m.Helper()
	list := docs.Commands(docs.Section(m.page, section))
	if len(list) == 0 {
		m.Fatalf("%s has no commands under %q", movePage, section)
	}
	return list
}

// play runs a section's commands, about a node where there is one.
func (m *move) play(ctx context.Context, section string, node *cluster.Node) {
	m.Helper()
	for _, line := range m.commands(section) {
		m.run(ctx, line, node)
	}
}

// socket is HAProxy's runtime API, as the page calls it.
const socket = "/run/haproxy/admin.sock"

// untold plays a section but for what is said to, and asked of, the load balancer.
func (m *move) untold(ctx context.Context, section string, node *cluster.Node) {
	m.Helper()
	for _, line := range m.commands(section) {
		if !strings.Contains(line, socket) {
			m.run(ctx, line, node)
		}
	}
}

// run runs a command line of the page where it says: beside the load balancer what asks for a URL.
func (m *move) run(ctx context.Context, line string, node *cluster.Node) {
	m.Helper()
	shell := exec.CommandContext
	if strings.Contains(line, "http://") {
		shell = theHarness.Command
	}
	as := line
	if m.front != nil {
		as = strings.ReplaceAll(as, socket, m.front.Socket())
	}
	cmd := shell(ctx, "bash", "-euo", "pipefail", "-c", as)
	cmd.Dir, cmd.WaitDelay = m.dir, 10*time.Second
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+m.kubeconfig, "PATH="+m.bin+":"+os.Getenv("PATH"))
	if node != nil {
		cmd.Env = append(cmd.Env, "NODE="+node.Name(), "ADDRESS="+node.IP())
	}
	begun := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("%s: %v\n%s", as, err, out)
	}
	about := ""
	if node != nil {
		about = node.Name() + ": "
	}
	m.Logf("%4.0f s  %s%s", time.Since(begun).Seconds(), about, as)
}

// send sends requests while act runs; log is the load balancer's. All servers are checked at
// first as the DaemonSet's pods answer.
func (m *move) send(ctx context.Context, act func()) (report traffic.Report, log string) {
	m.Helper()
	front, err := m.fleet.Front(ctx, hostUntold)
	m.must(err)
	defer func() { m.front = nil; _ = front.Stop() }()
	m.front = front
	client, err := m.fleet.Send(ctx, rate)
	m.must(err)
	defer client.Stop()
	time.Sleep(2 * time.Second)
	act()
	time.Sleep(2 * time.Second)
	report, err = client.Stop()
	m.must(err)
	return report, front.Log()
}

// finish leaves the IngressDaemonSet alone, whose pods stay.
func (m *move) finish(ctx context.Context) {
	m.Helper()
	before, err := m.fleet.Pods(ctx)
	m.must(err)
	m.play(ctx, "When all nodes have moved", nil)
	m.must(m.fleet.WaitServing(ctx))
	after, err := m.fleet.Pods(ctx)
	m.must(err)
	if !maps.EqualFunc(before, after, func(a, b *corev1.Pod) bool { return a.UID == b.UID }) {
		m.Errorf("%d pods ran before the last steps and %d run now, and they are not the same", len(before), len(after))
	}
	if len(after) != len(m.fleet.Nodes()) {
		m.Errorf("%d pods run on %d nodes", len(after), len(m.fleet.Nodes()))
	}
}
