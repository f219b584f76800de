package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// edge is an IngressDaemonSet on two nodes, and the Service that its pods are published to.
type edge struct {
	*testing.T
	r    *Reconciler
	full *filled
	set  *v1alpha1.IngressDaemonSet
	svc  *corev1.Service
	// seen is what the last pass observed.
	seen *observed
}

func newEdge(t *testing.T) *edge {
	set := benchSet()
	set.Spec.HealthCheckNodePorts, set.Spec.ServiceName = nil, "web"
	r, full, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{T: t, r: r, full: full, set: set, svc: &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}}
	e.template("http", 8080)
	e.must(r.client.Create(t.Context(), e.svc))
	for i := range 2 {
		node := benchNode(i)
		e.put(node, benchDeployment(set, node.Name))
		for _, pod := range e.pods(node.Name) {
			e.put(pod)
		}
	}
	return e
}

func (e *edge) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *edge) put(objects ...client.Object) {
	e.Helper()
	for _, o := range objects {
		e.must(e.full.of(o).GetIndexer().Add(o))
	}
}

// template has the template declare one port.
func (e *edge) template(port string, number int32) {
	e.set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: port, ContainerPort: number}}
	e.set.Generation++
}

// pods are two of the present template.
func (e *edge) pods(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for i, object := range benchPods(e.set, node)[:2] {
		pod := object.(*corev1.Pod)
		pod.Name += "-" + pod.Labels[v1alpha1.LabelRevision]
		pod.UID = types.UID(pod.Name)
		pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.1.0.%d", i+1)}}
		out = append(out, pod)
	}
	return out
}

// pass observes, records the template and publishes. It gives what is published of each
// node.
func (e *edge) pass() map[string][]string {
	e.Helper()
	e.forget()
	var err error
	e.seen, err = e.r.look(e.Context(), e.set)
	e.must(err)
	e.must(e.r.recordRevision(e.Context(), e.seen))
	e.must(e.publish())
	return e.published()
}

// forget has all be read again: no event tells of what changes here.
func (e *edge) forget() { e.r.sessions.pass(e.set).readings = nil }

// publish publishes what was seen over what is published by now.
func (e *edge) publish() error {
	e.must(e.r.observePublished(e.Context(), e.seen))
	return e.r.publish(e.Context(), e.seen, e.seen.published)
}

// published are the endpoints of each node as "name of pod:port".
func (e *edge) published() map[string][]string {
	e.Helper()
	list := &discoveryv1.EndpointSliceList{}
	e.must(e.r.client.List(e.Context(), list, client.InNamespace(e.set.Namespace)))
	out := map[string][]string{}
	for _, slice := range list.Items {
		for _, at := range slice.Endpoints {
			for _, port := range slice.Ports {
				out[*at.NodeName] = append(out[*at.NodeName], fmt.Sprintf("%s:%d", at.TargetRef.Name, *port.Port))
			}
		}
	}
	for _, endpoints := range out {
		slices.Sort(endpoints)
	}
	return out
}

// on is what published gives where these pods have this port.
func on(port int32, pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, fmt.Sprintf("%s:%d", pod.Name, port))
	}
	slices.Sort(out)
	return out
}

// faults are the reasons and messages of what blocks, or warns.
func faults(of []rollout.Fault) string {
	var out []string
	for _, f := range of {
		out = append(out, f.Reason+": "+f.Message)
	}
	return strings.Join(out, "; ")
}

// TestPortsOfOwnTemplate publishes each pod on the port that its own template declares,
// however long it stays while the template is another.
func TestPortsOfOwnTemplate(t *testing.T) {
	e := newEdge(t)
	first, second := benchNode(0).Name, benchNode(1).Name
	old := map[string][]*corev1.Pod{first: e.pods(first), second: e.pods(second)}
	check := func(what string, want map[string][]string) {
		t.Helper()
		if diff := cmp.Diff(want, e.pass()); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	before := map[string][]string{first: on(8080, old[first]), second: on(8080, old[second])}
	check("at first", before)

	e.template("http", 9090)
	check("with another number, and all pods old", before)

	updated := e.pods(first)
	e.put(updated[0])
	check("in the middle of a node's turn", map[string][]string{
		first: slices.Sorted(slices.Values(slices.Concat(on(8080, old[first]), on(9090, updated[:1])))), second: before[second],
	})

	for _, pod := range old[first] {
		e.must(e.full.of(pod).GetIndexer().Delete(pod))
	}
	e.put(updated[1])
	check("after a node's turn", map[string][]string{first: on(9090, updated), second: before[second]})
	if f := faults(e.seen.state.Faults) + faults(e.seen.state.Warnings); f != "" {
		t.Errorf("nothing is wrong: %s", f)
	}
}

// TestPortRenamed stops the rollout of a template that lacks the name of the Service's
// target port. Pods whose own template lacks it stay published as they were.
func TestPortRenamed(t *testing.T) {
	e := newEdge(t)
	before := e.pass()
	check := func(what, blocks, warns string) {
		t.Helper()
		if diff := cmp.Diff(before, e.pass()); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
		for got, want := range map[string]string{faults(e.seen.state.Faults): blocks, faults(e.seen.state.Warnings): warns} {
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
	}
	retarget := func(port string) {
		t.Helper()
		e.svc.Spec.Ports[0].TargetPort = intstr.FromString(port)
		e.must(e.r.client.Update(t.Context(), e.svc))
	}
	e.template("plain", 8080)
	check("the template's port is renamed", "ServiceUnusable: Service web has the targetPort http", "")
	retarget("plain")
	check("the Service's as well", "", "ServiceUnusable: Service web has the targetPort plain")
	retarget("http")
	e.template("http", 9090)
	check("back, with another number", "", "")
	e.must(e.r.client.DeleteAllOf(t.Context(), &appsv1.ControllerRevision{}, client.InNamespace(e.set.Namespace)))
	e.r.mutations = newMutationCache(e.r.now)
	check("the record of the old template is lost", "", "ServiceUnusable: Service web has the targetPort http")
}

// TestNeverUnpublished has pods in one slice or another at every moment in which they
// go from one to the other.
func TestNeverUnpublished(t *testing.T) {
	e := newEdge(t)
	before := e.pass()
	var lost []string
	e.r.client = interceptor.NewClient(e.r.client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			err := c.Delete(ctx, obj, opts...)
			for node, endpoints := range before {
				if now := e.published()[node]; len(now) < len(endpoints) {
					lost = append(lost, fmt.Sprintf("%s has %v", node, now))
				}
			}
			return err
		},
	})
	e.r.parallel = 1
	// A port by number has the name of a slice that needs no number.
	e.svc.Spec.Ports[0].TargetPort = intstr.FromInt32(8080)
	e.must(e.r.client.Update(t.Context(), e.svc))
	if diff := cmp.Diff(before, e.pass()); diff != "" || len(lost) > 0 {
		t.Errorf("%v %s", lost, diff)
	}

	// What an IngressDaemonSet of the same name left behind is taken over.
	list := &discoveryv1.EndpointSliceList{}
	e.must(e.r.client.List(t.Context(), list))
	for _, slice := range list.Items {
		left := slice.DeepCopy()
		left.ObjectMeta = metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name + "-left", Labels: slice.Labels}
		e.must(e.r.client.Create(t.Context(), left))
	}
	if diff := cmp.Diff(before, e.pass()); diff != "" || len(lost) > 0 {
		t.Errorf("%v %s", lost, diff)
	}
}

// slices are those of the namespace.
func (e *edge) slices() []discoveryv1.EndpointSlice {
	e.Helper()
	list := &discoveryv1.EndpointSliceList{}
	e.must(e.r.client.List(e.Context(), list, client.InNamespace(e.set.Namespace)))
	return list.Items
}

// orphanSlices is the garbage collector.
func (e *edge) orphanSlices() {
	e.Helper()
	for _, s := range e.slices() {
		s.OwnerReferences = nil
		e.must(e.r.client.Update(e.Context(), &s, client.FieldOwner("kube-controller-manager")))
	}
}

// isDeleted has the object carry a deletion timestamp, and finalizers beside the controller's.
func (e *edge) isDeleted(finalizers ...string) {
	e.set.DeletionTimestamp = new(metav1.Now())
	e.set.Finalizers = append(e.set.Finalizers, finalizers...)
}

// TestSlicesThatAreLeft: EndpointSlices belong to nobody while an IngressDaemonSet is deleted
// without what it owns, or the garbage collector would delete them after it. By then it may have
// done its part, whose slices are seen before whose Deployments.
func TestSlicesThatAreLeft(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(e *edge)
		// owned are how many of the three are its own, of which one is new.
		owned int
	}{
		"nothing is deleted":      {func(*edge) {}, 3},
		"it goes with them":       {func(e *edge) { e.isDeleted() }, 3},
		"not orphaned yet":        {func(e *edge) { e.isDeleted(metav1.FinalizerOrphanDependents) }, 0},
		"orphaned":                {func(e *edge) { e.isDeleted(metav1.FinalizerOrphanDependents); e.orphanSlices() }, 0},
		"orphaned, and only seen": {func(e *edge) { e.isDeleted(); e.orphanSlices() }, 1},
		"left by one of its name": {func(e *edge) { e.orphanSlices() }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t)
			before := e.pass()
			test.happens(e)
			e.template("http", 9090)
			updated := e.pods(benchNode(0).Name)[0]
			e.put(updated)
			e.forget()
			o, err := e.r.look(t.Context(), e.set)
			e.must(err)
			e.must(e.r.publish(t.Context(), o, o.published))
			owned := slices.DeleteFunc(e.slices(), func(s discoveryv1.EndpointSlice) bool { return ownerless(&s) })
			if len(owned) != test.owned {
				t.Errorf("%d are its own", len(owned))
			}
			before[benchNode(0).Name] = slices.Sorted(slices.Values(append(before[benchNode(0).Name], on(9090, []*corev1.Pod{updated})...)))
			if diff := cmp.Diff(before, e.published()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSlicesOfAnOldLook: slices that were left behind are neither adopted nor deleted by an old
// look at the object that left them.
func TestSlicesOfAnOldLook(t *testing.T) {
	e := newEdge(t)
	before := e.pass()
	e.must(e.r.setAsSeen(t.Context(), e.seen))
	e.orphanSlices()
	e.must(e.r.client.Delete(t.Context(), e.set.DeepCopy())) // whose finalizer keeps it
	e.seen.nodes[benchNode(0).Name].pods = nil
	if err := e.publish(); !onepass.OnlyConflicts(err) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, e.published()); diff != "" {
		t.Error(diff)
	}
	for _, s := range e.slices() {
		if !ownerless(&s) {
			t.Errorf("%s is adopted", s.Name)
		}
	}
}

// TestOrphansArePublished as they were left until they are adopted, which may never be: not as
// under update, or no node of the fleet would get traffic.
func TestOrphansArePublished(t *testing.T) {
	e := newEdge(t)
	e.pass()
	e.orphanSlices()
	before := &v1alpha1.IngressDaemonSet{}
	e.must(e.r.live.Get(t.Context(), client.ObjectKeyFromObject(e.set), before))
	before.Finalizers = nil
	e.must(e.r.client.Update(t.Context(), before))
	e.must(e.r.client.Delete(t.Context(), before))
	e.set.UID, e.set.ResourceVersion = "second", ""
	e.must(e.r.client.Create(t.Context(), e.set))
	first, second, third := benchNode(0).Name, benchNode(1).Name, benchNode(2)
	for _, node := range []string{first, second} {
		d := benchDeployment(e.set, node)
		d.OwnerReferences = nil
		if node == second {
			d.Annotations[v1alpha1.DefaultMarkKey] = "somebody's"
		}
		e.put(d)
	}
	e.put(third, e.pods(third.Name)[0])
	e.r.mutations = newMutationCache(e.r.now)
	e.pass()
	want := map[string]bool{first: true, second: false, third.Name: false}
	for _, s := range e.slices() {
		for _, at := range s.Endpoints {
			if *at.Conditions.Ready != want[*at.NodeName] || *at.Conditions.Terminating == want[*at.NodeName] {
				t.Errorf("%s on %s: ready %t, terminating %t", at.TargetRef.Name, *at.NodeName, *at.Conditions.Ready, *at.Conditions.Terminating)
			}
		}
		if !controlledBy(&s, e.set.UID) {
			t.Errorf("%s is not adopted", s.Name)
		}
	}
}

// TestLeavesNoneAsUnderUpdate: whoever sees late that a mark is gone publishes no node as under
// update that a deletion leaves behind, since nobody may publish it again.
func TestLeavesNoneAsUnderUpdate(t *testing.T) {
	for name, deletion := range map[string]rollout.Deletion{"left behind": rollout.DeleteOrphaning, "deleted": rollout.DeleteInWaves} {
		for _, was := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, under update before: %t", name, was), func(t *testing.T) {
				e := newEdge(t)
				e.pass()
				for _, s := range e.slices() {
					for i := range s.Endpoints {
						s.Endpoints[i].Conditions.Terminating = new(was)
					}
					e.must(e.r.client.Update(t.Context(), &s))
				}
				e.seen.state.Deletion = deletion
				for i := range e.seen.state.Nodes {
					e.seen.state.Nodes[i].Deployment.Mark = "somebody's"
				}
				e.must(e.publish())
				for _, s := range e.slices() {
					for _, at := range s.Endpoints {
						if is, want := *at.Conditions.Terminating, was || deletion == rollout.DeleteInWaves; is != want {
							t.Errorf("%s is published as under update: %t, want %t", at.TargetRef.Name, is, want)
						}
					}
				}
			})
		}
	}
}

// TestLeavesWhatEndsAsSuch: a node whose Deployment is gone loses its pods, whatever was published.
func TestLeavesWhatEndsAsSuch(t *testing.T) {
	e := newEdge(t)
	e.pass()
	e.seen.state.Deletion = rollout.DeleteOrphaning
	for i := range e.seen.state.Nodes {
		e.seen.state.Nodes[i].Deployment = nil
	}
	e.must(e.publish())
	for _, s := range e.slices() {
		for _, at := range s.Endpoints {
			if !*at.Conditions.Terminating {
				t.Errorf("%s is published as if it stayed", at.TargetRef.Name)
			}
		}
	}
}

// TestGoesWhenEverySliceIsLeft: an IngressDaemonSet does not go without its Deployments while an
// EndpointSlice is its own or says of pods what a mark made of them, whatever the cache shows.
func TestGoesWhenEverySliceIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		api  interceptor.Funcs
		goes bool
	}{
		"left as it should be": {interceptor.Funcs{}, true},
		"they are not in the cache yet": {interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*discoveryv1.EndpointSliceList); ok {
					return nil
				}
				return c.List(ctx, list, opts...)
			},
		}, true},
		"one was written meanwhile": {interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return apierrors.NewConflict(discoveryv1.Resource("endpointslices"), "web", nil)
			},
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t)
			e.pass()
			o := e.seen
			o.state.Deletion = rollout.DeleteOrphaning
			for _, s := range e.slices() {
				s.Endpoints[0].Conditions.Terminating = new(true)
				e.must(e.r.client.Update(t.Context(), &s))
			}
			e.r.client = interceptor.NewClient(e.r.client.(client.WithWatch), test.api)
			done, err := e.r.apply(t.Context(), o, []rollout.Step{{Action: rollout.RemoveFinalizer}})
			if goes := len(done) > 0; goes != test.goes || !goes && !onepass.OnlyConflicts(err) {
				t.Errorf("it goes: %t, %v", goes, err)
			}
			for _, s := range e.slices() {
				if test.goes && (!ownerless(&s) || *s.Endpoints[0].Conditions.Terminating) {
					t.Errorf("%s goes too, or is left as under update", s.Name)
				}
			}
		})
	}
}

// TestRecordOfPodsIsKept prunes no revision that pods are of: the record tells which
// ports they listen on.
func TestRecordOfPodsIsKept(t *testing.T) {
	e := newEdge(t)
	e.set.Spec.RevisionHistoryLimit = new(int32(1))
	before := e.pass()
	for number := range int32(4) {
		e.template("http", 9090+number)
		after := e.pass()
		e.must(e.r.pruneRevisions(t.Context(), e.seen))
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
	}
	if f := faults(e.seen.state.Warnings); f != "" {
		t.Error(f)
	}
}

// TestUnusableService keeps what is published to a Service up to date, and publishes no
// other node, while the Service may be meant for something else.
func TestUnusableService(t *testing.T) {
	e := newEdge(t)
	first, second, third := benchNode(0).Name, benchNode(1).Name, benchNode(2)
	before := e.pass()
	e.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	e.must(e.r.client.Update(t.Context(), e.svc))
	e.put(third, benchDeployment(e.set, third.Name), e.pods(third.Name)[0])
	e.template("http", 9090)
	updated := e.pods(first)[0]
	e.put(updated)
	want := map[string][]string{
		first: slices.Sorted(slices.Values(append(slices.Clone(before[first]), on(9090, []*corev1.Pod{updated})...))), second: before[second],
	}
	if diff := cmp.Diff(want, e.pass()); diff != "" {
		t.Error(diff)
	}
}
