package controller

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestHostPortShared warns the younger of two IngressDaemonSets whose pods take the same
// port of a node, and stops neither.
func TestHostPortShared(t *testing.T) {
	of := func(name string, created int64, port int32) *v1alpha1.IngressDaemonSet {
		set := benchSet()
		set.Name, set.UID, set.CreationTimestamp = name, types.UID(name), metav1.NewTime(time.Unix(created, 0))
		set.Spec.HealthCheckNodePorts = []int32{10000 + int32(created)}
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port}}
		return set
	}
	for _, c := range []struct {
		name        string
		older, port int32
		selector    map[string]string
		warns       string
		asksOlder   bool
	}{
		{name: "the same port", older: 80, port: 80, warns: "IngressDaemonSet edge/older take TCP port 80 of node node-00001"},
		{name: "another port", older: 80, port: 8080},
		{name: "the same port of other nodes", older: 80, port: 80, selector: map[string]string{"none": "such"}},
		{name: "the older one", older: 80, port: 80, asksOlder: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			older, younger := of("older", 1, c.older), of("younger", 2, c.port)
			older.Spec.NodeSelector = c.selector
			if c.asksOlder {
				older, younger = younger, older // of which the second is asked
			}
			r, full, err := newReconciler(younger)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.client.Create(t.Context(), older); err != nil {
				t.Fatal(err)
			}
			if err := full.of(&corev1.Node{}).GetIndexer().Add(benchNode(1)); err != nil {
				t.Fatal(err)
			}
			o, err := r.observe(t.Context(), younger)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.state.Faults) > 0 {
				t.Errorf("it stops the rollout: %v", o.state.Faults)
			}
			switch got := o.state.Warnings; {
			case c.warns == "" && len(got) > 0:
				t.Errorf("it warns: %v", got)
			case c.warns != "" && (len(got) != 1 || got[0].Reason != v1alpha1.ReasonHostPortShared || !strings.Contains(got[0].Message, c.warns)):
				t.Errorf("%v, want %s", got, c.warns)
			}
		})
	}
}

// TestRetiredPortOfAnother: a port that another IngressDaemonSet has given up is not free while
// its health checkers may answer there. A DaemonSet without such pods, which who may make no pods
// on the host network could pass for them, takes nothing.
func TestRetiredPortOfAnother(t *testing.T) {
	const port = 10090
	for name, c := range map[string]struct {
		change func(ds *appsv1.DaemonSet, other *v1alpha1.IngressDaemonSet)
		taken  bool
	}{
		"it may answer":         {func(*appsv1.DaemonSet, *v1alpha1.IngressDaemonSet) {}, true},
		"it has no pod":         {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.Status.CurrentNumberScheduled = 0 }, false},
		"its pods have no port": {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.Spec.Template.Spec.HostNetwork = false }, false},
		"nobody owns it":        {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.OwnerReferences = nil }, false},
		"its owner is no more":  {func(ds *appsv1.DaemonSet, _ *v1alpha1.IngressDaemonSet) { ds.OwnerReferences[0].UID = "before" }, false},
		"on other nodes": {func(_ *appsv1.DaemonSet, other *v1alpha1.IngressDaemonSet) {
			other.Spec.NodeSelector = map[string]string{"none": "such"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, other := benchSet(), benchSet()
			set.Spec.HealthCheckNodePorts, other.Spec.HealthCheckNodePorts = []int32{port}, []int32{port + 1}
			other.Namespace, other.Name, other.UID = "tenant", "other", "other"
			ds := &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "tenant", Name: "checkers", Labels: map[string]string{v1alpha1.LabelHealthCheckPort: objects.PortLabel(port)},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(other, v1alpha1.Kind)},
				},
				Spec:   appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}},
				Status: appsv1.DaemonSetStatus{CurrentNumberScheduled: 1},
			}
			c.change(ds, other)
			r, full, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range []client.Object{other, ds} {
				if err := r.client.Create(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if err := full.of(&corev1.Node{}).GetIndexer().Add(benchNode(1)); err != nil {
				t.Fatal(err)
			}
			o, err := r.observe(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			if o.taken[port] != c.taken || (len(o.state.Faults) > 0) != c.taken {
				t.Errorf("taken %t, want %t: %v", o.taken[port], c.taken, o.state.Faults)
			}
		})
	}
}

// TestForgedCheckers: a port is not asked because somebody made a DaemonSet that says to be its
// health checker, and a pod of which may hold no port of nodes; and no more than some of those are
// looked after at all.
func TestForgedCheckers(t *testing.T) {
	set := benchSet()
	checker := func(port int32, change func(ds *appsv1.DaemonSet)) *appsv1.DaemonSet {
		ds := objects.Checker(set, port, "checker")
		ds.UID, ds.CreationTimestamp = types.UID(ds.Name), metav1.NewTime(time.Unix(int64(port), 0))
		ds.Status.CurrentNumberScheduled = 1
		change(ds)
		return ds
	}
	asked := func(t *testing.T, r *Reconciler, passes ...[]*appsv1.DaemonSet) (asked, retiring []int32) {
		t.Helper()
		for _, checkers := range passes {
			o := &observed{set: set, checkers: map[int32]*appsv1.DaemonSet{}}
			for _, ds := range checkers {
				port, err := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
				if err != nil {
					t.Fatal(err)
				}
				o.checkers[int32(port)] = ds
			}
			o.seated = r.memory.rememberSeats(client.ObjectKeyFromObject(set), o.checkers)
			o.boundRetiring()
			asked, retiring = nil, nil
			for _, e := range o.ports() {
				if e.port == 10080 {
					continue
				}
				retiring = append(retiring, e.port)
				if !e.deserted {
					asked = append(asked, e.port)
				}
			}
		}
		return asked, retiring
	}
	as := func(*appsv1.DaemonSet) {}
	noPod := func(ds *appsv1.DaemonSet) { ds.Status.CurrentNumberScheduled = 0 }
	for name, c := range map[string]struct {
		passes [][]*appsv1.DaemonSet
		asked  []int32
	}{
		"it has pods": {[][]*appsv1.DaemonSet{{checker(22, as)}}, []int32{22}},
		"it has none": {[][]*appsv1.DaemonSet{{checker(22, noPod)}}, nil},
		"it has one where none should be": {[][]*appsv1.DaemonSet{{checker(22, func(ds *appsv1.DaemonSet) {
			noPod(ds)
			ds.Status.NumberMisscheduled = 1
		})}}, []int32{22}},
		"it has none yet":      {[][]*appsv1.DaemonSet{{checker(22, noPod)}, {checker(22, as)}}, []int32{22}},
		"it has none any more": {[][]*appsv1.DaemonSet{{checker(22, as)}, {checker(22, noPod)}, {checker(22, noPod)}}, []int32{22}},
		"another had": {[][]*appsv1.DaemonSet{{checker(22, as)}, {checker(22, func(ds *appsv1.DaemonSet) {
			noPod(ds)
			ds.UID = "another"
		})}}, nil},
		"its pods hold no port": {[][]*appsv1.DaemonSet{{checker(22, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.HostNetwork = false })}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			if got, retiring := asked(t, r, c.passes...); !slices.Equal(got, c.asked) || !slices.Equal(retiring, []int32{22}) {
				t.Errorf("asks %v of %v, want %v", got, retiring, c.asked)
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		var all []*appsv1.DaemonSet
		for port := int32(100); port > 0; port-- {
			all = append(all, checker(port, map[bool]func(*appsv1.DaemonSet){false: noPod, true: as}[port > 50]))
		}
		got, retiring := asked(t, r, all)
		if len(got) != 50 || got[0] != 51 || len(retiring) != 50+mostDeserted || retiring[mostDeserted-1] != mostDeserted {
			t.Errorf("asks %v of %v, want 50, and to look after the oldest %d of the others", got, retiring, mostDeserted)
		}
	})
	t.Run("what is deserted is told to be so", func(t *testing.T) {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		o := &observed{set: set, checkers: map[int32]*appsv1.DaemonSet{22: checker(22, noPod)}}
		e := endpoint{node: "node-1", address: "127.0.0.1", port: 22, deserted: true}
		r.checks.want(client.ObjectKeyFromObject(set), []endpoint{e})
		if n := len(r.checks.callers[client.ObjectKeyFromObject(set)]); n != 0 {
			t.Errorf("%d ports are asked", n)
		}
		got := r.answers(o, &nodeObjects{reading: &reading{endpoints: []endpoint{e}, gone: []bool{false}}})
		if len(got) != 1 || !got[0].Gone || !got[0].Retiring || got[0].Answered {
			t.Errorf("got %+v", got)
		}
	})
}
