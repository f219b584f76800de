package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// idle is how long a settled fleet is watched.
const idle = 8 * time.Second

// TestIdle shows that a fleet in which nothing happens costs the API server
// nothing: there is no polling, and no loop of writes.
func TestIdle(t *testing.T) {
	f := newFixture(t, 3)
	set, other := f.create("proxy", annotated), f.create("other", withoutChecks)
	f.complete(set)
	f.complete(other)
	f.kubectl("set", "env", "deployment/other-"+f.nodes[0], "FOREIGN=1")
	f.waitClean(other)
	f.change(set, version("v2"))
	f.complete(set)
	start := f.settle()
	<-time.After(idle)
	for _, e := range f.all(start) {
		if e.Verb != "watch" && e.ObjectRef.Resource != "leases" {
			t.Errorf("%s %s %s/%s", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
		}
	}
}

// settle waits until the controller has done nothing in the namespace for a
// second, and returns when that was.
func (f *fixture) settle() time.Time {
	f.Helper()
	var since time.Time
	f.eventually("the controller has nothing to do", func() error {
		since = time.Now()
		if busy := f.since(since.Add(-time.Second)); len(busy) > 0 {
			return fmt.Errorf("it does %v", busy)
		}
		return nil
	})
	return since
}

// all are the controller's requests from a moment on.
func (f *fixture) all(start time.Time) []audit.Event {
	f.Helper()
	events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
	f.must(err)
	return slices.DeleteFunc(events, func(e audit.Event) bool { return e.Received.Before(start) })
}

// annotated asks a detacher for each node, and does not wait for its answer.
func annotated(set *v1alpha1.IngressDaemonSet) {
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: detachKey, Value: "true"}
}

const (
	detachKey    = "example.com/detached"
	timestampKey = "example.com/detached-at"
)

// TestWrites counts what an undisturbed rollout costs: at most 3 writes to each
// Deployment and 2 to each Node, a revision, and the status.
func TestWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	set := f.create("proxy", annotated)
	f.complete(set)
	start := time.Now()
	f.change(set, version("v2"))
	f.complete(set)
	count := map[string]int{}
	for _, e := range audit.Writes(f.since(start)) {
		count[e.ObjectRef.Resource+" "+e.ObjectRef.Name]++
	}
	t.Log(count)
	for _, node := range f.nodes {
		if n := count["deployments proxy-"+node]; n != 3 {
			t.Errorf("%d writes to the Deployment of %s", n, node)
		}
		if n := count["nodes "+node]; n != 2 {
			t.Errorf("%d writes to Node %s", n, node)
		}
	}
	// One Deployment is tried in a dry run.
	if n := count["deployments proxy-dry-run"]; n > 1 {
		t.Errorf("%d dry runs", n)
	}
	if n := count["ingressdaemonsets proxy"]; n > 6*len(f.nodes) {
		t.Errorf("%d writes of the status", n)
	}
	for _, resource := range []string{"daemonsets", "serviceaccounts", "rolebindings", "endpointslices"} {
		for what, n := range count {
			if n > 0 && len(what) > len(resource) && what[:len(resource)] == resource {
				t.Errorf("%d writes to %s", n, what)
			}
		}
	}
}

// TestNewVersion starts another version of the controller: it replaces the health
// checkers and no pod of the proxy, and writes no Deployment.
func TestNewVersion(t *testing.T) {
	f := newFixture(t, 3)
	set := f.create("proxy", rich)
	f.complete(set)
	type deployment struct {
		version    string
		generation int64
	}
	deployments := func() map[string]deployment {
		out := map[string]deployment{}
		for node, d := range f.deployments(set) {
			out[node] = deployment{d.ResourceVersion, d.Generation}
		}
		return out
	}
	f.eventually("the Deployment controller has written its last status", func() error {
		for node, d := range f.deployments(set) {
			complete := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
				return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
			})
			if !complete || d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas {
				return fmt.Errorf("%s: %+v", node, d.Status)
			}
		}
		return nil
	})
	before, pods := deployments(), uids(f.pods(set, ""))
	checkers := f.checkerPods(set)
	orphans := f.create("orphans", answered, func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port + 1} })
	f.complete(orphans)
	f.change(orphans, version("v2"))
	asked := f.waitAsked(f.nodes...)
	f.must(theController.stop())
	t.Log("while no controller runs, the garbage collector has done with an orphan deletion before it is seen")
	f.kubectl("delete", "ids", orphans.Name, "--cascade=orphan", "--wait=false")
	f.waitFor("only the controller's finalizer is left", orphans, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.DeletionTimestamp != nil && slices.Equal(set.Finalizers, []string{v1alpha1.Finalizer})
	})
	var err error
	theController, err = startController(context.Background(), "controller:v2")
	f.must(err)
	f.eventually("all checkers are of the new version", func() error {
		now := f.checkerPods(set)
		for uid, image := range now {
			if checkers[uid] != "" || image != "controller:v2" {
				return fmt.Errorf("one has %s", image)
			}
		}
		if len(now) != len(f.nodes) {
			return fmt.Errorf("there are %d", len(now))
		}
		return nil
	})
	f.gone(orphans)
	f.released(asked)
	f.unmarkedOrphans(len(f.nodes))
	f.settle()
	f.complete(set)
	if got := deployments(); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("the Deployments were %v and are %v", before, got)
	}
	if got := uids(f.pods(set, "")); fmt.Sprint(got) != fmt.Sprint(pods) {
		t.Errorf("the pods were %v and are %v", pods, got)
	}
}

// checkerPods are the images of the health checkers' pods.
func (f *fixture) checkerPods(set *v1alpha1.IngressDaemonSet) map[types.UID]string {
	f.Helper()
	out := map[types.UID]string{}
	for _, pod := range f.allPods(set) {
		if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" && pod.DeletionTimestamp == nil {
			out[pod.UID] = pod.Spec.Containers[0].Image
		}
	}
	return out
}

// TestCache keeps in memory what carries the name of an IngressDaemonSet, and of
// that no more than is read.
func TestCache(t *testing.T) {
	f := newFixture(t, 1)
	set := f.create("proxy", rich)
	f.complete(set)
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "stranger"}, Spec: base("", "").Spec.Template.Spec}
	f.must(api.Create(t.Context(), stranger))
	cached := theController.manager.GetCache()
	f.eventually("the cache has the proxy's pods", func() error {
		pods := &corev1.PodList{}
		if err := cached.List(t.Context(), pods, client.InNamespace(f.ns)); err != nil {
			return err
		}
		if len(pods.Items) != 3 {
			return fmt.Errorf("it has %d", len(pods.Items))
		}
		for _, pod := range pods.Items {
			if pod.Name == stranger.Name || len(pod.Spec.Containers) > 0 || len(pod.ManagedFields) > 0 {
				t.Errorf("pod %s is kept with %d containers", pod.Name, len(pod.Spec.Containers))
			}
		}
		return nil
	})
	deployments := &appsv1.DeploymentList{}
	f.must(cached.List(t.Context(), deployments, client.InNamespace(f.ns)))
	for _, d := range deployments.Items {
		if len(d.Spec.Template.Spec.Containers) > 0 {
			t.Errorf("Deployment %s is kept whole", d.Name)
		}
	}
}
