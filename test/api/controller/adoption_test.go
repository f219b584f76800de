package controller

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestOrphansAreAdopted by a new IngressDaemonSet of the name: with the pods that run,
// which serve on, and not beside them.
func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set, node := f.stuck()
	before := uids(f.pods(set, ""))
	f.kubectl("delete", "ids", "proxy", "--cascade=orphan", "--wait=false")
	f.gone(set)
	f.released(node)
	set = f.create("proxy")
	f.complete(set)
	f.deploymentsInAll(2)
	if now := uids(f.pods(set, "")); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
	seen := f.record(set)
	f.change(set, version("v2"))
	f.complete(set)
	f.checkHandshake(seen())
	f.deploymentsInAll(2)
}

// TestLostLabels are put back on a Deployment, and no second one is made meanwhile.
func TestLostLabels(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	set := f.create("proxy")
	f.complete(set)
	before := uids(f.pods(set, ""))
	name := "deployment/proxy-" + f.nodes[0]
	for what, args := range map[string][]string{
		"the name":        {"label", name, v1alpha1.LabelName + "-"},
		"the node":        {"label", name, v1alpha1.LabelNode + "-"},
		"another name":    {"label", "--overwrite", name, v1alpha1.LabelName + "=another"},
		"both":            {"label", name, v1alpha1.LabelName + "-", v1alpha1.LabelNode + "-"},
		"the annotations": {"annotate", name, v1alpha1.AnnotationNode + "-"},
	} {
		f.kubectl(args...)
		f.eventually(what+" is put back", func() error {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "proxy-" + f.nodes[0]}}
			f.read(d)
			if d.Labels[v1alpha1.LabelName] != set.Name || d.Labels[v1alpha1.LabelNode] != f.nodes[0] || d.Annotations[v1alpha1.AnnotationNode] != f.nodes[0] {
				return fmt.Errorf("labels %v, annotations %v", d.Labels, d.Annotations)
			}
			return nil
		})
	}
	f.complete(set)
	f.deploymentsInAll(1)
	if now := uids(f.pods(set, "")); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, now)
	}
}

// deploymentsInAll fails where there are not so many in the namespace.
func (f *fixture) deploymentsInAll(want int) {
	f.Helper()
	list := &appsv1.DeploymentList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns)))
	if len(list.Items) != want {
		f.Errorf("there are %d Deployments, want %d", len(list.Items), want)
	}
}
