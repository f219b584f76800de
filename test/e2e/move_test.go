package e2e

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The label of "Move from a DaemonSet", and the name of the DaemonSet, its pods' label too.
const movedLabel, oldName = "example.com/ingress", "old"

// TestMoveFromADaemonSet follows that page: nodes go over one after the other, and one of
// them back and over again, behind a load balancer that checks each server on its own port.
// In the control a node moves that the load balancer was not told of.
func TestMoveFromADaemonSet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	t.Cleanup(func() { _ = theHarness.Kubectl(context.Background(), "label", "nodes", "--all", movedLabel+"-").Run() })
	on := alone(t)
	m, first := openMove(ctx, t, on), on.Nodes()[0].Name()

	control, _ := m.send(ctx, func() {
		m.label(ctx, first, "moving")
		m.waitGone(ctx, oldPods, first)
	})
	t.Logf("control: %d of %d requests failed", control.Failed, control.Requests)
	if control.Failed == 0 {
		t.Error("the control lost nothing, so that the test proves nothing")
	}
	m.label(ctx, first, "")
	m.waitOld(ctx, first)

	report, log := m.send(ctx, func() {
		m.over(ctx, first)
		m.back(ctx, first)
		for _, n := range on.Nodes() {
			m.over(ctx, n.Name())
		}
		m.finish(ctx)
	})
	if losesNothing(t, report); t.Failed() {
		t.Log(happened(&harness.Story{}, log))
	}
}

// move is a DaemonSet's move to an IngressDaemonSet.
type move struct {
	*testing.T
	fleet *harness.Fleet
	front *lb.LB
	// moved is how many nodes went over.
	moved int32
}

// openMove has the DaemonSet run everywhere, and the IngressDaemonSet nowhere yet.
func openMove(ctx context.Context, t *testing.T, on *lane) *move {
	t.Helper()
	var old *appsv1.DaemonSet
	s := scenario{example: "nginx.yaml", adjust: func(set *v1alpha1.IngressDaemonSet) {
		old = daemonSetOf(set)
		set.Spec.NodeSelector = map[string]string{movedLabel: "moved"}
	}}
	m := &move{T: t, fleet: s.apply(ctx, t, on)}
	old.Namespace = m.fleet.Key.Namespace
	if err := theHarness.Create(ctx, old); err != nil {
		t.Fatal(err)
	}
	for _, n := range m.fleet.Nodes() {
		m.waitOld(ctx, n.Name())
	}
	m.kubectl(ctx, "-n", old.Namespace, "patch", "daemonset", oldName, "--patch-file", documentedPatch(t))
	return m
}

// daemonSetOf runs what the IngressDaemonSet would.
func daemonSetOf(set *v1alpha1.IngressDaemonSet) *appsv1.DaemonSet {
	labels := map[string]string{"app": oldName}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: oldName},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
}

// documentedPatch is a file with the patch of the page.
func documentedPatch(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/guides/upgrade-and-uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n( *# kubectl patch daemonset OLD .*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page does not tell how to keep the DaemonSet away")
	}
	file := filepath.Join(t.TempDir(), "keep-away.yaml")
	if err := os.WriteFile(file, block[1], 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// send sends requests while act runs; log is the load balancer's. All servers are checked at
// first as the DaemonSet's pods answer.
func (m *move) send(ctx context.Context, act func()) (report traffic.Report, log string) {
	m.Helper()
	front, err := m.fleet.Front(ctx, hostUntold)
	if err != nil {
		m.Fatal(err)
	}
	defer front.Stop()
	m.front = front
	client, err := m.fleet.Send(ctx, rate)
	if err != nil {
		m.Fatal(err)
	}
	defer client.Stop()
	time.Sleep(2 * time.Second)
	act()
	time.Sleep(2 * time.Second)
	if report, err = client.Stop(); err != nil {
		m.Fatal(err)
	}
	return report, front.Log()
}

// over moves a node to the IngressDaemonSet.
func (m *move) over(ctx context.Context, node string) {
	m.Helper()
	m.takeOut(ctx, node)
	m.label(ctx, node, "moving")
	m.waitGone(ctx, oldPods, node)
	m.label(ctx, node, "moved")
	m.moved++
	m.waitServing(ctx, node)
	m.putIn(ctx, node, hostTold.Check)
}

// back moves a node back to the DaemonSet.
func (m *move) back(ctx context.Context, node string) {
	m.Helper()
	m.takeOut(ctx, node)
	m.label(ctx, node, "moving")
	m.moved--
	m.waitGone(ctx, m.newPods, node)
	m.label(ctx, node, "")
	m.waitOld(ctx, node)
	m.putIn(ctx, node, hostUntold.Check)
}

// finish leaves the IngressDaemonSet alone, whose pods stay.
func (m *move) finish(ctx context.Context) {
	m.Helper()
	before, err := m.fleet.Pods(ctx)
	if err != nil {
		m.Fatal(err)
	}
	m.kubectl(ctx, "-n", m.fleet.Key.Namespace, "delete", "daemonset", oldName)
	if err := m.fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) { set.Spec.NodeSelector = nil }); err != nil {
		m.Fatal(err)
	}
	if err := m.fleet.WaitServing(ctx); err != nil {
		m.Fatal(err)
	}
	for _, n := range m.fleet.Nodes() {
		m.label(ctx, n.Name(), "")
	}
	if err := m.fleet.WaitServing(ctx); err != nil {
		m.Fatal(err)
	}
	after, err := m.fleet.Pods(ctx)
	if err != nil {
		m.Fatal(err)
	}
	if !maps.EqualFunc(before, after, func(a, b *corev1.Pod) bool { return a.UID == b.UID }) {
		m.Errorf("%d pods ran before the last steps and %d run now, and they are not the same", len(before), len(after))
	}
}

func (m *move) takeOut(ctx context.Context, node string) {
	m.Helper()
	if err := m.front.Drain(node); err != nil {
		m.Fatal(err)
	}
	m.wait(ctx, "connections of "+node+" to end", func() (bool, error) {
		servers, err := m.front.Servers()
		return !slices.ContainsFunc(servers, func(s lb.ServerState) bool { return s.Name == node && s.CurrentSessions > 0 }), err
	})
}

func (m *move) putIn(ctx context.Context, node string, check int) {
	m.Helper()
	if err := m.front.MoveCheck(node, check); err != nil {
		m.Fatal(err)
	}
	if err := m.front.Enable(node); err != nil {
		m.Fatal(err)
	}
	if err := m.front.WaitUp(ctx, node); err != nil {
		m.Fatal(err)
	}
}

// label gives a node the label with a value, or takes it off where there is none.
func (m *move) label(ctx context.Context, node, value string) {
	m.Helper()
	label := movedLabel + "-"
	if value != "" {
		label = movedLabel + "=" + value
	}
	m.kubectl(ctx, "label", "--overwrite", "node", node, label)
}

func (m *move) kubectl(ctx context.Context, args ...string) {
	m.Helper()
	if out, err := theHarness.Kubectl(ctx, args...).CombinedOutput(); err != nil {
		m.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (m *move) wait(ctx context.Context, what string, done func() (bool, error)) {
	m.Helper()
	if err := harness.Wait(ctx, what, done); err != nil {
		m.Fatal(err)
	}
}

// oldPods are the DaemonSet's.
func oldPods(ctx context.Context) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := theHarness.List(ctx, list, client.MatchingLabels{"app": oldName})
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, err
}

// newPods are the IngressDaemonSet's.
func (m *move) newPods(ctx context.Context) ([]*corev1.Pod, error) {
	pods, err := m.fleet.Pods(ctx)
	return slices.Collect(maps.Values(pods)), err
}

// waitGone waits until none of the pods is on the node.
func (m *move) waitGone(ctx context.Context, pods func(context.Context) ([]*corev1.Pod, error), node string) {
	m.Helper()
	m.wait(ctx, "pods to be gone from "+node, func() (bool, error) {
		all, err := pods(ctx)
		return !slices.ContainsFunc(all, func(p *corev1.Pod) bool { return p.Spec.NodeName == node }), err
	})
}

// waitOld waits until the DaemonSet serves on the node.
func (m *move) waitOld(ctx context.Context, node string) {
	m.Helper()
	m.wait(ctx, "the DaemonSet's pod on "+node, func() (bool, error) {
		all, err := oldPods(ctx)
		return slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == node && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		}), err
	})
}

// waitServing waits until the node answers on the new port, and the status counts it.
func (m *move) waitServing(ctx context.Context, node string) {
	m.Helper()
	asking := newAsking()
	for _, n := range m.fleet.Nodes() {
		if n.Name() == node {
			m.wait(ctx, node+" to answer 200", func() (bool, error) {
				kind, _, err := ask(asking, "http://"+net.JoinHostPort(n.IP(), strconv.Itoa(hostTold.Check))+"/")
				return kind == fine, err
			})
		}
	}
	if err := m.fleet.WaitStatus(ctx, node+" to be counted", func(s v1alpha1.IngressDaemonSetStatus) bool {
		return s.DesiredNodes == m.moved && s.ServingNodes == m.moved
	}); err != nil {
		m.Fatal(err)
	}
}
