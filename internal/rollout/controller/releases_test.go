package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReleaseEnds: a port that was released and is in the spec again goes on answering,
// when it is removed once more, while it is asked.
func TestReleaseEnds(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080, 10081}})
	w.run(start.Add(time.Minute))
	ports := func(ports ...int32) {
		w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.HealthCheckNodePorts = ports })
		w.run(w.now.Add(time.Minute))
	}
	ports(10081)
	set := w.set().DeepCopy()
	annotate(set, v1alpha1.AnnotationReleasedPorts, "10079,10080")
	w.must(w.user("kubectl-ids").Update(ctx, set, client.FieldOwner("kubectl-ids")))
	w.run(w.now.Add(time.Minute))
	if w.daemonSets[10080] != nil {
		t.Fatal("a port that was released is not closed")
	}
	ports(10080, 10081)
	ports(10081)
	if w.daemonSets[10080] == nil {
		t.Error("a port is closed since it was released once")
	}
	if got := w.set().Annotations[v1alpha1.AnnotationReleasedPorts]; got != "10079" {
		t.Errorf("the ports %q are released", got)
	}
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
}

// TestReleaseOfWhatIsGone: nothing is left to be forgotten of an IngressDaemonSet that a cache still shows.
func TestReleaseOfWhatIsGone(t *testing.T) {
	r, _, err := newReconciler(benchSet())
	if err != nil {
		t.Fatal(err)
	}
	gone := benchSet()
	gone.Name, gone.ResourceVersion = "gone", "1"
	annotate(gone, v1alpha1.AnnotationReleasedPorts, "10080")
	if err := r.endReleases(t.Context(), &observed{set: gone}); err != nil {
		t.Error(err)
	}
}

// TestReleaseThatStays, since the API server does not take its end, stops no rollout.
func TestReleaseThatStays(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.begin(specOfStories())
	w.run(start.Add(time.Minute))
	r := w.leaders[0].r
	r.client = failing{r.client, theSet.Name}
	set := w.set().DeepCopy()
	annotate(set, v1alpha1.AnnotationReleasedPorts, "10080")
	w.must(w.user("kubectl-ids").Update(ctx, set, client.FieldOwner("kubectl-ids")))
	w.changeTemplate("r2")
	w.run(w.now.Add(5 * time.Minute))
	if n := w.set().Status.UpdatedNodes; n != 1 || w.set().Annotations[v1alpha1.AnnotationReleasedPorts] == "" {
		t.Errorf("%d nodes are updated", n)
	}
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
}

// TestPortReturnsWhileItCloses: a port that is wanted again while its health checkers are
// still taken away is answered again.
func TestPortReturnsWhileItCloses(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	w.begin(v1alpha1.IngressDaemonSetSpec{PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080, 10081}})
	w.run(start.Add(time.Minute))
	w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.HealthCheckNodePorts = []int32{10081} })
	w.release()
	for w.daemonSets[10080] != nil && w.now.Before(start.Add(2*time.Minute)) {
		w.run(w.now.Add(time.Millisecond))
	}
	w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.HealthCheckNodePorts = []int32{10080, 10081} })
	for w.daemonSets[10080] == nil && w.now.Before(start.Add(2*time.Minute)) {
		w.run(w.now.Add(time.Millisecond))
	}
	if w.nodes["n1"].checks[10080] == nil {
		t.Fatal("its health checkers are gone before others are made")
	}
	w.run(w.now.Add(5 * time.Minute))
	w.mustHold(t, "unfinished", w.unfinished)
}
