package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// answered asks a detacher for each node and waits for its answer, which the
// tests give.
func answered(set *v1alpha1.IngressDaemonSet) {
	annotated(set)
	set.Spec.UpdateStrategy.RollingUpdate.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{Key: timestampKey}
}

// waitAsked waits until one of the nodes is asked for, and returns it.
func (f *fixture) waitAsked(among ...string) string {
	f.Helper()
	var asked string
	f.eventually("a node is asked for", func() error {
		for _, name := range among {
			if _, asks := f.node(name).Annotations[detachKey]; asks {
				asked = name
				return nil
			}
		}
		return fmt.Errorf("none of %v is", among)
	})
	return asked
}

// requests are the annotations of the controller's own on a Node.
func (f *fixture) requests(name string) []string {
	f.Helper()
	var out []string
	for key := range f.node(name).Annotations {
		if strings.HasPrefix(key, v1alpha1.AnnotationDetachPrefix) || key == detachKey {
			out = append(out, key)
		}
	}
	return out
}

// stuck is an IngressDaemonSet in the middle of the detachment of a node that
// nobody answers for.
func (f *fixture) stuck() (set *v1alpha1.IngressDaemonSet, node string) {
	f.Helper()
	set = f.create("proxy", answered)
	f.complete(set)
	f.change(set, version("v2"))
	return set, f.waitAsked(f.nodes...)
}

func (f *fixture) released(names ...string) {
	f.Helper()
	for _, name := range names {
		f.eventually("Node "+name+" is released", func() error {
			if left := f.requests(name); len(left) > 0 {
				return fmt.Errorf("it carries %v", left)
			}
			return nil
		})
	}
}

// TestDeletionInWaves takes one node after the other out, and the health checkers
// last.
func TestDeletionInWaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	set := f.create("proxy", annotated)
	f.complete(set)
	seen := f.record(set)
	f.must(api.Delete(t.Context(), set))
	f.eventually("the Deployments are gone", func() error {
		checker := &appsv1.DaemonSet{}
		left := f.deployments(set)
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: "proxy-" + portString}, checker); err != nil && len(left) > 0 {
			t.Errorf("the health checkers went before the Deployments: %v", err)
		}
		if len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
	f.gone(set)
	f.released(f.nodes...)
	last, out := map[string]*appsv1.Deployment{}, map[string]bool{}
	for _, d := range seen() {
		if last[d.Name] = d; marked(d) {
			out[d.Name] = true
		}
	}
	if len(out) != 3 {
		t.Errorf("only %v were marked before they were deleted", out)
	}
}

// TestForegroundDeletion is refused until it is allowed. Then it waits for nothing, and
// leaves nothing on the Nodes.
func TestForegroundDeletion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	err := api.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err == nil || !strings.Contains(err.Error(), "stops the pods of all nodes at once") {
		t.Fatalf("the deletion was answered with %v", err)
	}
	f.kubectl("annotate", "ids", "proxy", v1alpha1.AnnotationAllowForegroundDeletion+"=")
	f.kubectl("delete", "ids", "proxy", "--cascade=foreground", "--wait=false")
	f.gone(set)
	f.released(node)
	if left := f.deployments(set); len(left) > 0 {
		t.Errorf("%d Deployments are left", len(left))
	}
}

// TestOrphanDeletion leaves the Deployments, without mark and without owner.
func TestOrphanDeletion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	before := uids(f.pods(set, ""))
	f.kubectl("delete", "ids", "proxy", "--cascade=orphan", "--wait=false")
	f.gone(set)
	f.released(node)
	f.unmarkedOrphans(2)
	if now := uids(f.pods(set, "")); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
}

// unmarkedOrphans fails where there are not so many Deployments without an owner
// in the namespace, or one of them is marked.
func (f *fixture) unmarkedOrphans(want int) {
	f.Helper()
	list := &appsv1.DeploymentList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns)))
	orphans := 0
	for _, d := range list.Items {
		if metav1.GetControllerOf(&d) != nil {
			continue
		}
		orphans++
		if marked(&d) {
			f.Errorf("Deployment %s is marked: %v", d.Name, d.Annotations)
		}
	}
	if orphans != want {
		f.Errorf("%d Deployments have no owner, want %d", orphans, want)
	}
}

// TestNamespaceDeletion in the middle of a rollout releases the Node.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	f.must(api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.ns}}))
	f.gone(set)
	f.released(node)
}

// TestNodeDeletedWhileDetached drops the node and goes on with the next.
func TestNodeDeletedWhileDetached(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, first := f.stuck()
	f.must(api.Delete(t.Context(), f.node(first)))
	second := f.nodes[0]
	if second == first {
		second = f.nodes[1]
	}
	// minServingNodes protects the last node, unless it may go too.
	f.change(set, rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) }))
	f.waitAsked(second)
	f.eventually("the Deployment of the node is gone", func() error {
		if f.deployments(set)[first] != nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	f.answer(second)
	f.eventually("the node is released", func() error { return f.clear(second) })
	f.complete(set)
	if set.Status.DesiredNodes != 1 {
		t.Errorf("%d nodes are desired", set.Status.DesiredNodes)
	}
}

// TestDeletionWithoutNodes ends although no kubelet and no Node is there to wait for.
func TestDeletionWithoutNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	set, first := f.stuck()
	var gone []string
	for _, name := range f.nodes {
		if name != first {
			gone = append(gone, name)
			f.must(api.Delete(t.Context(), f.node(name)))
		}
	}
	f.must(api.Delete(t.Context(), set))
	f.answer(first)
	f.gone(set)
	f.released(first)
	if len(gone) != 2 {
		t.Errorf("the nodes were %v", f.nodes)
	}
}

// TestDeletionBeforeAnything deletes what has nothing yet.
func TestDeletionBeforeAnything(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	set := f.create("proxy")
	f.waitReason(set, v1alpha1.ConditionAvailable, v1alpha1.ReasonNoNodes)
	f.must(api.Delete(t.Context(), set))
	f.gone(set)
}

// answer is the detacher's: the node is out.
func (f *fixture) answer(node string) {
	f.Helper()
	f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, timestampKey, now()))
}

// clear takes the answer back once nobody asks for the node.
func (f *fixture) clear(node string) error {
	n := f.node(node)
	if _, asks := n.Annotations[detachKey]; asks {
		return fmt.Errorf("it is still asked for")
	}
	return api.Patch(context.Background(), n, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"metadata": {"annotations": {%q: null}}}`, timestampKey)))
}
