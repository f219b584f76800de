package controller

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// fixtureLabel names the test on its namespace and nodes.
const fixtureLabel = "fixture"

const port = 10080

// fixture is a namespace and nodes of a test's own.
type fixture struct {
	*testing.T
	ns    string
	nodes []string
}

// newFixture makes the namespace and as many nodes, which are named after it.
func newFixture(t *testing.T, nodes int) *fixture {
	t.Helper()
	f := &fixture{T: t, ns: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.ns, Labels: map[string]string{fixtureLabel: f.ns}}}
	f.must(api.Create(t.Context(), ns))
	t.Cleanup(func() {
		f.report()
		if err := api.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	for i := range nodes {
		f.addNode(fmt.Sprintf("%s-%d", f.ns, i+1))
	}
	return f
}

// report tells what became of the IngressDaemonSets of a test that failed.
func (f *fixture) report() {
	list := &v1alpha1.IngressDaemonSetList{}
	if !f.Failed() || api.List(context.Background(), list, client.InNamespace(f.ns)) != nil {
		return
	}
	for _, set := range list.Items {
		s := set.Status
		f.Logf("%s: generation %d of %d, %d desired, %d serving, %d updated, wave %v, nodes %v", set.Name, s.ObservedGeneration, set.Generation,
			s.DesiredNodes, s.ServingNodes, s.UpdatedNodes, s.Wave, s.Nodes)
		for _, c := range s.Conditions {
			f.Logf("  %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

var lastAddress atomic.Uint32

// newAddress is a loopback address that no other node has.
func newAddress() string {
	n := lastAddress.Add(1)
	return netip.AddrFrom4([4]byte{127, 2, byte(n / 250), byte(n%250 + 1)}).String()
}

func node(name, fixture string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels:      map[string]string{fixtureLabel: fixture},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: newAddress()}, {Type: corev1.NodeHostName, Address: name},
		}},
	}
}

// kwokAnnotation makes kwok the kubelet of a node.
const kwokAnnotation = "kwok.x-k8s.io/node"

// addNode returns when the node is Ready.
func (f *fixture) addNode(name string, adjust ...func(*corev1.Node)) {
	f.Helper()
	n := node(name, f.ns)
	for _, a := range adjust {
		a(n)
	}
	f.must(api.Create(f.Context(), n))
	f.nodes = append(f.nodes, name)
	f.eventually("node "+name+" is Ready", func() error {
		if !isReady(f.node(name)) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) eventually(what string, try func() error) {
	f.Helper()
	if err := poll(f.Context(), func(context.Context) error { return try() }); err != nil {
		f.Fatalf("waiting for %q: %v", what, err)
	}
}

// base is an IngressDaemonSet of 2 pods a node that detaches one node at a time,
// without any grace.
func base(namespace, name string) *v1alpha1.IngressDaemonSet {
	return &v1alpha1.IngressDaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.IngressDaemonSetSpec{
			PodsPerNode:          new(int32(2)),
			HealthCheckNodePorts: []int32{port},
			NodeSelector:         map[string]string{fixtureLabel: namespace},
			UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{
				MaxUnavailableNodes:        new(intstr.FromInt32(1)),
				AnnotateDeploymentToDetach: &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: new(int32)},
				AttachGracePeriodSeconds:   new(int32),
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers:                    []corev1.Container{{Name: "proxy", Image: "proxy:v1"}},
				},
			},
		},
	}
}

type change = func(*v1alpha1.IngressDaemonSet)

// create makes base of the name with changes.
func (f *fixture) create(name string, changes ...change) *v1alpha1.IngressDaemonSet {
	f.Helper()
	set := base(f.ns, name)
	for _, c := range changes {
		c(set)
	}
	f.must(api.Create(f.Context(), set))
	return set
}

// change changes the IngressDaemonSet as kubectl edit does.
func (f *fixture) change(set *v1alpha1.IngressDaemonSet, changes ...change) {
	f.Helper()
	f.read(set)
	before := set.DeepCopy()
	for _, c := range changes {
		c(set)
	}
	f.must(api.Patch(f.Context(), set, client.MergeFrom(before)))
}

func (f *fixture) read(object client.Object) {
	f.Helper()
	f.must(api.Get(f.Context(), client.ObjectKeyFromObject(object), object))
}

// version changes the template.
func version(v string) change {
	return func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.Containers[0].Image = "proxy:" + v
	}
}

// rolling changes the strategy.
func rolling(f func(*v1alpha1.RollingUpdate)) change {
	return func(set *v1alpha1.IngressDaemonSet) { f(set.Spec.UpdateStrategy.RollingUpdate) }
}

// withoutChecks lets nobody answer health checks.
func withoutChecks(set *v1alpha1.IngressDaemonSet) {
	set.Spec.HealthCheckNodePorts = nil
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach = nil
}

// waitFor waits until the IngressDaemonSet is as wanted.
func (f *fixture) waitFor(what string, set *v1alpha1.IngressDaemonSet, is func(*v1alpha1.IngressDaemonSet) bool) {
	f.Helper()
	f.eventually(set.Name+": "+what, func() error {
		if err := api.Get(f.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if !is(set) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}

// complete waits until every node serves with the present template.
func (f *fixture) complete(set *v1alpha1.IngressDaemonSet) {
	f.Helper()
	f.waitFor("every node serves with the present template", set, isComplete)
}

func isComplete(set *v1alpha1.IngressDaemonSet) bool {
	s := set.Status
	return s.ObservedGeneration == set.Generation && reason(set, v1alpha1.ConditionProgressing) == v1alpha1.ReasonComplete &&
		s.ServingNodes == s.DesiredNodes && s.UpdatedNodes == s.DesiredNodes && s.DesiredNodes > 0 && len(s.Wave) == 0
}

// waitReason waits for the reason of a condition of the present generation, and
// returns the condition.
func (f *fixture) waitReason(set *v1alpha1.IngressDaemonSet, condition, want string) metav1.Condition {
	f.Helper()
	f.waitFor(condition+" has reason "+want, set, func(set *v1alpha1.IngressDaemonSet) bool {
		c := meta.FindStatusCondition(set.Status.Conditions, condition)
		return c != nil && c.Reason == want && c.ObservedGeneration == set.Generation
	})
	return *meta.FindStatusCondition(set.Status.Conditions, condition)
}

func reason(set *v1alpha1.IngressDaemonSet, condition string) string {
	if c := meta.FindStatusCondition(set.Status.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}

// deployments are those of the IngressDaemonSet by node.
func (f *fixture) deployments(set *v1alpha1.IngressDaemonSet) map[string]*appsv1.Deployment {
	f.Helper()
	list := &appsv1.DeploymentList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns)))
	out := map[string]*appsv1.Deployment{}
	for i, d := range list.Items {
		if metav1.IsControlledBy(&d, set) {
			out[d.Annotations[v1alpha1.AnnotationNode]] = &list.Items[i]
		}
	}
	return out
}

// deployment is that of a node.
func (f *fixture) deployment(set *v1alpha1.IngressDaemonSet, node string) *appsv1.Deployment {
	f.Helper()
	d := f.deployments(set)[node]
	if d == nil {
		f.Fatalf("%s has no Deployment on %s", set.Name, node)
	}
	return d
}

// pods are those of the IngressDaemonSet that are not about to go, by UID; of
// one node where it is not empty.
func (f *fixture) pods(set *v1alpha1.IngressDaemonSet, node string) map[types.UID]*corev1.Pod {
	f.Helper()
	out := map[types.UID]*corev1.Pod{}
	for _, pod := range f.allPods(set) {
		if pod.Labels[v1alpha1.LabelNode] != "" && pod.DeletionTimestamp == nil && (node == "" || pod.Spec.NodeName == node) {
			out[pod.UID] = pod
		}
	}
	return out
}

// allPods are those of the IngressDaemonSet and of its health checkers.
func (f *fixture) allPods(set *v1alpha1.IngressDaemonSet) []*corev1.Pod {
	f.Helper()
	list := &corev1.PodList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns), client.MatchingLabels{v1alpha1.LabelName: set.Name}))
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (f *fixture) node(name string) *corev1.Node {
	f.Helper()
	n := &corev1.Node{}
	f.must(api.Get(f.Context(), types.NamespacedName{Name: name}, n))
	return n
}

// patch sends a merge patch.
func (f *fixture) patch(object client.Object, patch string, opts ...client.PatchOption) {
	f.Helper()
	f.must(api.Patch(f.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), opts...))
}

// kubectl runs kubectl in the namespace.
func (f *fixture) kubectl(args ...string) string {
	f.Helper()
	out, err := theCluster.Kubectl(f.Context(), append([]string{"-n", f.ns}, args...)...).CombinedOutput()
	if err != nil {
		f.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// record keeps every version of the IngressDaemonSet's Deployments from now on,
// in order; the function that it returns gives those so far.
func (f *fixture) record(set *v1alpha1.IngressDaemonSet) func() []*appsv1.Deployment {
	f.Helper()
	w, err := api.Watch(f.Context(), &appsv1.DeploymentList{}, client.InNamespace(f.ns))
	f.must(err)
	f.Cleanup(w.Stop)
	var (
		mu   sync.Mutex
		seen []*appsv1.Deployment
	)
	go func() {
		for e := range w.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok && metav1.IsControlledBy(d, set) {
				mu.Lock()
				seen = append(seen, d)
				mu.Unlock()
			}
		}
	}()
	return func() []*appsv1.Deployment {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// marked reports whether the Deployment carries the health-check mark.
func marked(d *appsv1.Deployment) bool {
	_, ok := d.Annotations[v1alpha1.DefaultMarkKey]
	return ok
}

// event waits for an event about the IngressDaemonSet and returns its text.
func (f *fixture) event(set *v1alpha1.IngressDaemonSet, reason string) string {
	f.Helper()
	var note string
	f.eventually("an event "+reason, func() error {
		list := &eventsv1.EventList{}
		if err := api.List(f.Context(), list, client.InNamespace(f.ns)); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.UID == set.UID && e.Reason == reason {
				note = e.Note
				return nil
			}
			seen = append(seen, e.Reason)
		}
		return fmt.Errorf("there are only %v", seen)
	})
	return note
}

// gone waits until an object is deleted.
func (f *fixture) gone(object client.Object) {
	f.Helper()
	f.eventually(object.GetName()+" is gone", func() error {
		err := api.Get(f.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("it is there, deleted %v, finalizers %v", object.GetDeletionTimestamp(), object.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// since are the controller's requests in the namespace, and to the test's nodes,
// from a moment on.
func (f *fixture) since(start time.Time) []audit.Event {
	f.Helper()
	events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
	f.must(err)
	return slices.DeleteFunc(events, func(e audit.Event) bool {
		mine := e.ObjectRef.Namespace == f.ns || e.ObjectRef.Resource == "nodes" && slices.Contains(f.nodes, e.ObjectRef.Name)
		return !mine || e.Received.Before(start)
	})
}
