package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestStatus compares the whole status of a fleet that serves, and what kubectl
// prints of it.
func TestStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	set := f.create("proxy")
	f.complete(set)
	revision := set.Status.UpdateRevision
	want := v1alpha1.IngressDaemonSetStatus{
		ObservedGeneration: 1, DesiredNodes: 3, ServingNodes: 3, UpdatedNodes: 3, CurrentRevision: revision, UpdateRevision: revision,
		Conditions: set.Status.Conditions,
	}
	if diff := cmp.Diff(want, set.Status); diff != "" {
		t.Errorf("status:\n%s", diff)
	}
	for condition, want := range map[string]string{
		v1alpha1.ConditionAvailable: "True " + v1alpha1.ReasonNodesServing, v1alpha1.ConditionProgressing: "True " + v1alpha1.ReasonComplete,
		v1alpha1.ConditionDegraded: "False " + v1alpha1.ReasonAsExpected, v1alpha1.ConditionBlocked: "False " + v1alpha1.ReasonAsExpected,
	} {
		found := false
		for _, c := range set.Status.Conditions {
			if c.Type == condition {
				found = string(c.Status)+" "+c.Reason == want && c.ObservedGeneration == 1
			}
		}
		if !found {
			t.Errorf("%s is not %s: %v", condition, want, set.Status.Conditions)
		}
	}
	lines := strings.Split(strings.TrimSpace(f.kubectl("get", "ids", "-o", "wide")), "\n")
	if got := strings.Join(strings.Fields(lines[0]), " "); got != "NAME DESIRED SERVING UPDATED UNAVAILABLE ROLLOUT REVISION IMAGES AGE BLOCKED" {
		t.Errorf("the columns are %s", got)
	}
	if got := strings.Join(strings.Fields(lines[1])[:5], " "); got != "proxy 3 3 3 0" {
		t.Errorf("the row is %s", lines[1])
	}
	f.event(set, "DeploymentCreated")
}

// TestRefusedDeployment touches no node for a template that the API server
// refuses, and says what it says.
func TestRefusedDeployment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	before := f.versions(set)
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Template.Spec.Containers[0].Name = "Not_A_Name" })
	refused := f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonDeploymentRefused)
	for _, want := range []string{"spec.template.spec.containers[0].name", `"Not_A_Name"`, "RFC 1123"} {
		if !strings.Contains(refused.Message, want) {
			t.Errorf("the message does not contain %s: %s", want, refused.Message)
		}
	}
	f.event(set, v1alpha1.ReasonDeploymentRefused)
	// A node that joins meanwhile gets the template that the others have.
	f.addNode(f.ns + "-new")
	f.waitFor("all serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 3 })
	after := f.versions(set)
	delete(after, f.ns+"-new")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a node was touched:\n%s", diff)
	}
	f.change(set, version("v2"), func(set *v1alpha1.IngressDaemonSet) { set.Spec.Template.Spec.Containers[0].Name = "proxy" })
	f.complete(set)
	if reason(set, v1alpha1.ConditionBlocked) != v1alpha1.ReasonAsExpected {
		t.Errorf("it is still blocked: %v", set.Status.Conditions)
	}
}

// versions are the resource versions of the Deployments by node.
func (f *fixture) versions(set *v1alpha1.IngressDaemonSet) map[string]int64 {
	f.Helper()
	out := map[string]int64{}
	for node, d := range f.deployments(set) {
		// Annotations count, the status does not.
		out[node] = d.Generation
	}
	return out
}

// TestRefusedFromTheStart makes nothing, and everything once the template is right.
func TestRefusedFromTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) { set.Spec.Template.Spec.Containers[0].Name = "Not_A_Name" })
	f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonDeploymentRefused)
	if got := f.deployments(set); len(got) > 0 {
		t.Errorf("there are %d Deployments", len(got))
	}
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Template.Spec.Containers[0].Name = "proxy" })
	f.complete(set)
}

// TestUnusableService says what to change of a Service, holds the rollout, and
// goes on at once.
func TestUnusableService(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.ServiceName = "edge" })
	expect := func(message string) {
		t.Helper()
		if c := f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonServiceUnusable); !strings.Contains(c.Message, message) {
			f.waitFor("the message is "+message, set, func(set *v1alpha1.IngressDaemonSet) bool {
				for _, c := range set.Status.Conditions {
					if c.Type == v1alpha1.ConditionBlocked && strings.Contains(c.Message, message) {
						return true
					}
				}
				return false
			})
		}
	}
	expect("Service edge does not exist: create it without a selector")
	f.change(set, version("v2"))
	f.waitFor("the status is of the new template", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ObservedGeneration == set.Generation })
	f.settle()
	for _, d := range f.deployments(set) {
		if marked(d) || d.Spec.Template.Spec.Containers[0].Image != "proxy:v1" {
			t.Errorf("%s was rolled out although nobody may learn of it", d.Name)
		}
	}
	service := f.service("edge")
	service.Spec.Selector = map[string]string{"app": "proxy"}
	f.must(api.Create(t.Context(), service))
	expect("Service edge has a selector")
	if got := f.slices(set); len(got) > 0 {
		t.Errorf("%d slices were published to a Service that may be meant for others", len(got))
	}
	f.patch(service, `{"spec": {"selector": null, "externalTrafficPolicy": "Cluster"}}`)
	expect("Service edge must have externalTrafficPolicy Local")
	f.patch(service, `{"spec": {"externalTrafficPolicy": "Local"}}`)
	expect("Service edge has the targetPort web, which the template declares in no container")
	f.patch(service, `{"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 80}]}}`)
	f.read(service)
	f.kubeProxies(set, service)
	f.complete(set)
	if got := reason(set, v1alpha1.ConditionBlocked); got != v1alpha1.ReasonAsExpected {
		t.Errorf("it is still blocked: %s", got)
	}
}

// TestNodeNotReady leaves a node alone until it is Ready, names it, and does not
// count it as serving.
func TestNodeNotReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	k := f.addKubelet()
	node := k.node
	set := f.create("proxy", rolling(func(u *v1alpha1.RollingUpdate) { u.MaxUnavailableNodes.IntVal = 2 }))
	f.complete(set)
	k.ready.Store(false)
	f.waitFor("the node is unavailable", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.ServingNodes == 2 && set.Status.UnavailableNodes == 1 && reason(set, v1alpha1.ConditionDegraded) == v1alpha1.ReasonNodesNotServing
	})
	f.change(set, version("v2"))
	blocked := f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonNodeNotReady)
	if !strings.Contains(blocked.Message, node) {
		t.Errorf("the message is %q", blocked.Message)
	}
	f.waitFor("the others are updated", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.UpdatedNodes == 2 && set.Status.ServingNodes == 2
	})
	if got := f.deployment(set, node); marked(got) || got.Spec.Template.Spec.Containers[0].Image != "proxy:v1" {
		t.Error("the node was not left alone")
	}
	k.ready.Store(true)
	f.complete(set)
}

// TestMinServing takes out no node where too few would be left, and says so.
func TestMinServing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	minServing := func(n intstr.IntOrString) change {
		return rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = &n })
	}
	set := f.create("proxy", minServing(intstr.FromString("51%")))
	f.complete(set)
	before := f.versions(set)
	f.change(set, version("v2"))
	f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonFloorReached)
	f.event(set, v1alpha1.ReasonFloorReached)
	if diff := cmp.Diff(before, f.versions(set)); diff != "" {
		t.Errorf("a node was touched:\n%s", diff)
	}
	f.change(set, minServing(intstr.FromInt32(1)))
	f.complete(set)
}

// TestHealthCheckerNotReady takes out no node that has no health checker of the
// present version.
func TestHealthCheckerNotReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	k := f.addKubelet()
	node := k.node
	set := f.create("proxy")
	f.complete(set)
	k.starts.Store(false)
	for _, pod := range f.allPods(set) {
		if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" && pod.Spec.NodeName == node {
			f.must(api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
		}
	}
	f.waitFor("the node does not serve", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 1 })
	f.change(set, version("v2"), rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) }))
	blocked := f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonHealthCheckerNotReady)
	if !strings.Contains(blocked.Message, node) {
		t.Errorf("the message is %q", blocked.Message)
	}
	k.starts.Store(true)
	f.complete(set)
}

// TestRejectedPods shows that a kubelet that rejects pods is not flooded with more.
func TestRejectedPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	k := f.addKubelet()
	k.rejects.Store(true)
	set := f.create("proxy", withoutChecks)
	f.waitFor("the pods are held back, and were tried again", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return reason(set, v1alpha1.ConditionDegraded) == v1alpha1.ReasonPodsRejected && k.rejected.Load() > 2
	})
	if n := k.rejected.Load(); n > 20 {
		t.Errorf("%d pods were rejected", n)
	}
	for _, c := range set.Status.Conditions {
		if c.Type == v1alpha1.ConditionDegraded && (!strings.Contains(c.Message, "OutOfcpu") || !strings.Contains(c.Message, k.node)) {
			t.Errorf("the message is %q", c.Message)
		}
	}
	f.event(set, "PodsHeldBack")
	k.rejects.Store(false)
	f.complete(set)
	for _, pod := range f.allPods(set) {
		if pod.Status.Phase == corev1.PodFailed {
			t.Errorf("%s is left", pod.Name)
		}
	}
}

// TestPortConflict lets the older of two IngressDaemonSets have the port of a
// node that both are on, and the younger when the older is gone.
func TestPortConflict(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	elder := f.create("a")
	f.complete(elder)
	younger := f.create("b")
	blocked := f.waitReason(younger, v1alpha1.ConditionBlocked, v1alpha1.ReasonPortConflict)
	for _, want := range []string{f.ns + "/a", portString, f.nodes[0]} {
		if !strings.Contains(blocked.Message, want) {
			t.Errorf("the message does not name %s: %s", want, blocked.Message)
		}
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "b-" + portString}}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(ds), ds); !apierrors.IsNotFound(err) {
		t.Errorf("its health checkers: %v", err)
	}
	f.change(elder, func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port + 1} })
	f.waitFor("it waits until nobody asks the port", younger, func(set *v1alpha1.IngressDaemonSet) bool {
		c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionBlocked)
		return c.Reason == v1alpha1.ReasonPortConflict && strings.Contains(c.Message, f.ns+"/a still answers")
	})
	f.release(elder, port)
	f.waitReason(younger, v1alpha1.ConditionBlocked, v1alpha1.ReasonAsExpected)
	f.complete(younger)
	f.complete(elder)
}

// release has a health-check port closed that was removed from the spec.
func (f *fixture) release(set *v1alpha1.IngressDaemonSet, port int) {
	f.Helper()
	f.patch(set, fmt.Sprintf(`{"metadata": {"annotations": {%q: "%d"}}}`, v1alpha1.AnnotationReleasedPorts, port))
}
