package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// TestBreakGlass puts nodes back by the runbook while no controller runs, whatever had them taken out:
// their health checks pass again, and a controller that returns leaves them in.
func TestBreakGlass(t *testing.T) {
	g := newOutage(t)
	t.Log("a node of each fleet goes out")
	g.takeOut()
	t.Log("the controller goes, and somebody opens the runbook")
	restart := g.stopController()
	g.byTheRunbook()
	t.Log("the controller returns, and takes nothing out")
	marks := g.marks()
	restart()
	for _, b := range g.all() {
		g.waitFor("every node serves as it is", b.IngressDaemonSet, func(set *v1alpha1.IngressDaemonSet) bool {
			return set.Status.ObservedGeneration == set.Generation && set.Status.ServingNodes == set.Status.DesiredNodes && len(set.Status.Wave) == 0
		})
	}
	g.released(g.asked.node)
	if again := marks(); len(again) > 0 {
		t.Errorf("taken out again: %v", again)
	}
	t.Log("it goes on when it may")
	for _, b := range g.all() {
		g.change(b.IngressDaemonSet, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = false }, atOnce, rolling(func(u *v1alpha1.RollingUpdate) {
			u.WaitForDetachmentByAnnotatedTimestamp = nil
		}))
	}
	for _, b := range g.all() {
		g.complete(b.IngressDaemonSet)
	}
}

// broken is a fleet of which a node is out.
type broken struct {
	*v1alpha1.IngressDaemonSet
	// port is that of its health checks, 0 where they are kube-proxy's.
	port int32
	// node is the one that is out.
	node string
}

// outage is a fleet for each thing that keeps a node out: it fails its health checks, somebody wants it
// out, a detacher is asked, somebody has drained it, or it is published as one that ends.
type outage struct {
	*fixture
	failing, wanted, asked, drained, published *broken
	// drains is the node that is drained.
	drains string
}

func newOutage(t *testing.T) *outage {
	g := &outage{fixture: newFixture(t, 2)}
	for _, node := range g.nodes {
		g.kubectl("label", "node", node, "fleet=serves")
	}
	g.drains = g.addKubelet().node
	g.kubectl("label", "node", g.drains, "fleet=drained")
	g.failing = g.fleet("failing", port, "serves")
	g.wanted = g.fleet("wanted", port+1, "serves")
	g.asked = g.fleet("asked", port+2, "serves", atOnce, rolling(func(u *v1alpha1.RollingUpdate) {
		u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: v1alpha1.AnnotationNodeDetached, Value: "true"}
		u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: v1alpha1.AnnotationDetachmentTimestamp}
	}))
	// It has one node, which may have a turn: its Deployment was scaled by hand.
	g.drained = g.fleet("drained", port+3, "drained", atOnce, rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) }))
	service := g.service("published")
	g.must(api.Create(t.Context(), service))
	g.published = g.fleet(service.Name, 0, "serves", func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.HealthCheckNodePorts, set.Spec.ServiceName = nil, service.Name
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	})
	g.kubeProxies(g.published.IngressDaemonSet, service)
	for _, b := range g.all() {
		g.complete(b.IngressDaemonSet)
	}
	return g
}

func (g *outage) all() []*broken {
	return []*broken{g.failing, g.wanted, g.asked, g.drained, g.published}
}

// fleet makes one on the nodes with a label, whose nodes stay out for an hour once they are.
func (g *outage) fleet(name string, port int32, label string, changes ...change) *broken {
	g.Helper()
	hour := rolling(func(u *v1alpha1.RollingUpdate) { u.AnnotateDeploymentToDetach.GracePeriodSeconds = new(int32(3600)) })
	on := func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.NodeSelector = map[string]string{fixtureLabel: g.ns, "fleet": label}
		set.Spec.HealthCheckNodePorts = []int32{port}
	}
	return &broken{IngressDaemonSet: g.create(name, append([]change{on, hour}, changes...)...), port: port}
}

// atOnce has no grace after the mark.
func atOnce(set *v1alpha1.IngressDaemonSet) {
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach.GracePeriodSeconds = new(int32)
}

// takeOut returns when a node of each fleet is out, and all that keeps it out is there.
func (g *outage) takeOut() {
	g.Helper()
	for _, b := range []*broken{g.failing, g.asked, g.published} {
		g.change(b.IngressDaemonSet, version("v2"))
	}
	g.kubectl("annotate", "deployment", "wanted-"+g.nodes[1], v1alpha1.AnnotationDetached+"=me")
	g.kubectl("drain", g.drains, "--ignore-daemonsets", "--timeout=60s")
	for _, b := range g.all() {
		g.eventually("a node of "+b.Name+" is marked", func() error {
			for node, d := range g.deployments(b.IngressDaemonSet) {
				if marked(d) {
					b.node = node
					return nil
				}
			}
			return fmt.Errorf("none is")
		})
		g.answers(b, http.StatusServiceUnavailable)
	}
	g.eventually("the detacher is asked, and the drained node has no pods", func() error {
		if replicas := *g.deployment(g.drained.IngressDaemonSet, g.drained.node).Spec.Replicas; !g.asks() || replicas > 0 {
			return fmt.Errorf("asked: %t, %d replicas", g.asks(), replicas)
		}
		return nil
	})
	g.isPublished("false true true")
}

// byTheRunbook runs the commands of the runbook's last section, and sees what comes of them.
func (g *outage) byTheRunbook() {
	g.Helper()
	g.kubectl("uncordon", g.drains)
	for _, b := range g.all() {
		g.says([]string{b.Name + " paused"}, "rollout", "pause", b.Name)
		g.paste(b, "kubectl patch ids")
		mark := g.deployment(b.IngressDaemonSet, b.node).Annotations[v1alpha1.DefaultMarkKey]
		if said := g.paste(b, "kubectl get deployments"); !strings.Contains(said, mark) {
			g.Errorf("%s is not shown as marked with %s:\n%s", b.node, mark, said)
		}
	}
	for _, b := range g.all() {
		g.paste(b, "kubectl annotate deployments")
	}
	g.paste(g.asked, "kubectl annotate node")
	g.paste(g.drained, "kubectl scale deployment NAME-NODE")
	g.paste(g.published, "kubectl get endpointslices")
	for _, b := range g.all() {
		g.answers(b, http.StatusOK)
	}
	g.isPublished("true true false")
	if g.asks() {
		g.Error("the detacher is still asked")
	}
}

// asks reports whether a detacher is asked for the node.
func (g *outage) asks() bool {
	g.Helper()
	_, asks := g.node(g.asked.node).Annotations[v1alpha1.AnnotationNodeDetached]
	return asks
}

// isPublished waits until the Service's node that is out is published so.
func (g *outage) isPublished(want string) {
	g.Helper()
	g.eventually("it is published as "+want, func() error {
		got, err := g.flags(g.published.IngressDaemonSet, g.published.node)
		if err == nil && got != want {
			err = fmt.Errorf("it is %s", got)
		}
		return err
	})
}

// marks are the Deployments that are marked from now on, by their names.
func (g *outage) marks() func() []string {
	g.Helper()
	var recorded []func() []*appsv1.Deployment
	for _, b := range g.all() {
		recorded = append(recorded, g.record(b.IngressDaemonSet))
	}
	return func() (names []string) {
		for _, deployments := range recorded {
			for _, d := range deployments() {
				if marked(d) {
					names = append(names, d.Name)
				}
			}
		}
		return names
	}
}

// answers waits until the health check of the node that is out answers with a status.
func (g *outage) answers(b *broken, status int) {
	g.Helper()
	if b.port == 0 {
		return
	}
	url := "http://" + net.JoinHostPort(g.fixture.node(b.node).Status.Addresses[0].Address, strconv.Itoa(int(b.port)))
	g.eventually(fmt.Sprintf("%s of %s answers %d", b.node, b.Name, status), func() error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			return fmt.Errorf("it answers %d", answer.StatusCode)
		}
		return nil
	})
}

// stopController leaves the cluster without a controller, until restart is called or the test is over.
func (g *outage) stopController() (restart func()) {
	g.Helper()
	g.must(theController.stop())
	restart = sync.OnceFunc(func() {
		var err error
		if theController, err = startController(context.Background(), firstImage); err != nil {
			g.Fatal(err)
		}
	})
	g.Cleanup(restart)
	return restart
}

// paste runs the one command of the runbook's last section that begins so, as its reader does: with the names
// of the fleet and of its node.
func (g *outage) paste(b *broken, begins string) string {
	g.Helper()
	page, err := os.ReadFile("../../../docs/runbook.md")
	g.must(err)
	_, section, found := strings.Cut(string(page), "\n## Break-glass")
	if !found {
		g.Fatal("the runbook says nothing of how to do without the controller")
	}
	var lines []string
	for _, line := range docs.Commands(section) {
		if strings.HasPrefix(line, begins) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		g.Fatalf("%d commands begin with %q: %q", len(lines), begins, lines)
	}
	line := strings.NewReplacer("NAME", b.Name, "NODE", b.node).Replace(lines[0])
	kubectl := theCluster.Kubectl(g.Context())
	namespace := `-n "$IN"`
	if strings.Contains(line, "--all-namespaces") {
		namespace = ""
	}
	cmd := exec.CommandContext(g.Context(), "bash", "-c", `set -eo pipefail; kubectl() { "$KUBECTL" `+namespace+` "$@"; }; `+line)
	cmd.Env = append(kubectl.Env, "KUBECTL="+kubectl.Path, "IN="+g.ns)
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
