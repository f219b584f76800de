package controller

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
			o, err := r.look(t.Context(), younger)
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
// on the host network could pass for them, takes nothing, whatever its template says by now.
func TestRetiredPortOfAnother(t *testing.T) {
	const port = 10090
	type made struct {
		other *v1alpha1.IngressDaemonSet
		ds    *appsv1.DaemonSet
		pod   *corev1.Pod
	}
	noSuch := map[string]string{"none": "such"}
	elsewhere := func(m *made) { m.ds.Spec.Template.Spec.NodeSelector, m.pod.Spec.NodeName = noSuch, "another" }
	for name, c := range map[string]struct {
		change func(*made)
		// behind says whether the cache has no pods.
		behind, taken bool
	}{
		"it may answer":                 {change: func(*made) {}, taken: true},
		"the cache of pods is behind":   {change: func(*made) {}, behind: true, taken: true},
		"that of DaemonSets is behind":  {change: func(m *made) { m.ds.Status.CurrentNumberScheduled = 0 }, taken: true},
		"it has no pod":                 {change: func(m *made) { m.pod.Labels = nil }},
		"it counts none either":         {change: func(m *made) { m.pod.Labels, m.ds.Status.CurrentNumberScheduled = nil, 0 }, behind: true},
		"its pods were made without":    {change: func(m *made) { m.pod.Spec.HostNetwork = false }},
		"its pods were made with":       {change: func(m *made) { m.ds.Spec.Template.Spec.HostNetwork = false }, taken: true},
		"they are of another port":      {change: func(m *made) { m.pod.Labels[v1alpha1.LabelHealthCheckPort] = "10091" }},
		"they are of another namespace": {change: func(m *made) { m.pod.Namespace = "elsewhere" }},
		"nobody owns it":                {change: func(m *made) { m.ds.OwnerReferences = nil }},
		"its owner is no more":          {change: func(m *made) { m.ds.OwnerReferences[0].UID = "before" }},
		"on other nodes":                {change: elsewhere},
		"on other nodes but for a pod":  {change: func(m *made) { m.ds.Spec.Template.Spec.NodeSelector = noSuch }, taken: true},
		"its owner is on other nodes":   {change: func(m *made) { m.other.Spec.NodeSelector = noSuch }, taken: true},
		"its pod has no node yet":       {change: func(m *made) { m.pod.Spec.NodeName = "" }, taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			set, other := benchSet(), benchSet()
			set.Spec.HealthCheckNodePorts, other.Spec.HealthCheckNodePorts = []int32{port}, []int32{port + 1}
			other.Namespace, other.Name, other.UID = "tenant", "other", "other"
			ds := objects.Checker(other, port, "checker")
			ds.Status.CurrentNumberScheduled = 1
			m := &made{other, ds, checkerPod(ds)}
			c.change(m)
			r, full, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range []client.Object{m.other, m.ds, m.pod} {
				if err := r.client.Create(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if c.behind {
				r.client = withoutPods{r.client}
			}
			if err := full.of(&corev1.Node{}).GetIndexer().Add(benchNode(1)); err != nil {
				t.Fatal(err)
			}
			o, err := r.look(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			if o.taken[port] != c.taken || (len(o.state.Faults) > 0) != c.taken {
				t.Errorf("taken %t, want %t: %v", o.taken[port], c.taken, o.state.Faults)
			}
		})
	}
}

// TestRetiringCheckersStay: the health checkers of a port that was removed stay on the nodes for
// which the port was named, wherever the spec wants pods by now, and follow it in all else.
func TestRetiringCheckersStay(t *testing.T) {
	before := benchSet()
	before.Spec.NodeSelector = map[string]string{"pool": "mine"}
	before.Spec.HealthChecker.Tolerations = []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}
	before.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "mine", Operator: corev1.NodeSelectorOpExists}}}},
	}}}
	present := objects.Checker(before, 10080, "checker")
	everywhere := func(ports ...int32) *v1alpha1.IngressDaemonSet {
		set := benchSet()
		set.Spec.HealthCheckNodePorts = ports
		set.Spec.HealthChecker.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		return set
	}
	for name, c := range map[string]struct {
		set             *v1alpha1.IngressDaemonSet
		image           string
		stays, outdated bool
	}{
		"removed, and wanted on all nodes": {everywhere(), "checker", true, false},
		"removed, with another release":    {everywhere(), "newer", true, true},
		"in the spec":                      {everywhere(10080), "checker", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, err := newReconciler(c.set)
			if err != nil {
				t.Fatal(err)
			}
			r.image = c.image
			o := &observed{set: c.set, checkers: map[int32]*appsv1.DaemonSet{10080: present}, session: r.sessions.pass(c.set)}
			o.session.readingsOf(c.set)
			got := r.checker(o, 10080).Spec.Template.Spec
			had := present.Spec.Template.Spec
			stays := equality.Semantic.DeepEqual(got.NodeSelector, had.NodeSelector) && equality.Semantic.DeepEqual(got.Affinity, had.Affinity) &&
				equality.Semantic.DeepEqual(got.Tolerations, had.Tolerations)
			if stays != c.stays || got.Containers[0].Image != c.image {
				t.Errorf("stays where it is: %t, want %t: %+v", stays, c.stays, got)
			}
			if outdated := r.wantedRevision(o, 10080) != objects.CheckerRevision(present.Spec.Template.Labels); outdated != c.outdated {
				t.Errorf("outdated: %t, want %t", outdated, c.outdated)
			}
			// Another of the port, on nodes of its own, is not written again and again.
			other := r.checker(o, 10080)
			other.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "other"}
			o.checkers[10080] = other
			o.checkers[10080] = r.checker(o, 10080)
			if c.stays && r.wantedRevision(o, 10080) != objects.CheckerRevision(o.checkers[10080].Spec.Template.Labels) {
				t.Error("what was written is outdated")
			}
		})
	}
}

// checkerPod is a pod that a DaemonSet made.
func checkerPod(ds *appsv1.DaemonSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name + "-1", Labels: maps.Clone(ds.Spec.Template.Labels)},
		Spec:       corev1.PodSpec{NodeName: benchNode(1).Name, HostNetwork: ds.Spec.Template.Spec.HostNetwork},
	}
}

// withoutPods is a cache that has seen no pod yet.
type withoutPods struct{ client.Client }

func (c withoutPods) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// counted counts how often pods are listed.
type counted struct {
	client.Reader
	lists int
}

func (c *counted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		c.lists++
	}
	return c.Reader.List(ctx, list, opts...)
}

// TestForgedCheckers: a port is not asked because somebody made a DaemonSet that says to be its
// health checker, and no pod of which is on the host network; and no more than some of those are
// looked after at all.
func TestForgedCheckers(t *testing.T) {
	set := benchSet()
	checker := func(port int32) *appsv1.DaemonSet {
		ds := objects.Checker(set, port, "checker")
		ds.UID, ds.CreationTimestamp, ds.ResourceVersion = types.UID(ds.Name), metav1.NewTime(time.Unix(int64(port), 0)), "1"
		ds.Status.CurrentNumberScheduled = 1
		return ds
	}
	// pass is which ports that are not in the spec are asked, and which are looked after.
	pass := func(t *testing.T, r *Reconciler, in *v1alpha1.IngressDaemonSet, checkers ...*appsv1.DaemonSet) (asked, retiring []int32) {
		t.Helper()
		o := &observed{session: r.sessions.pass(in), set: in, checkers: map[int32]*appsv1.DaemonSet{}}
		for _, ds := range checkers {
			port, err := strconv.ParseInt(ds.Labels[v1alpha1.LabelHealthCheckPort], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			o.checkers[int32(port)] = ds
		}
		if err := r.observeSeats(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.boundRetiring()
		ports := o.ports()
		o.session.checks.begin = func(context.Context, *checks, *caller) {}
		o.session.checks.want(endpointsAt(benchNode(1), ports))
		for _, e := range ports {
			if o.retiring(e.Number) {
				retiring = append(retiring, e.Number)
			}
		}
		for e := range o.session.checks.callers {
			if o.retiring(e.Number) {
				asked = append(asked, e.Number)
			}
		}
		slices.Sort(asked)
		return asked, retiring
	}
	const port = 10090
	had := benchSet()
	had.Spec.HealthCheckNodePorts = []int32{10080, port}
	// world is what there is, and what was before.
	type world struct {
		before *v1alpha1.IngressDaemonSet
		ds     *appsv1.DaemonSet
		pod    *corev1.Pod
		behind bool
	}
	for name, c := range map[string]struct {
		change func(*world)
		asked  bool
	}{
		"it has pods":                  {func(*world) {}, true},
		"the cache of pods is behind":  {func(w *world) { w.behind = true }, true},
		"that of DaemonSets is behind": {func(w *world) { w.ds.Status.CurrentNumberScheduled = 0 }, true},
		"it has one where none should be": {func(w *world) {
			w.behind, w.ds.Status.CurrentNumberScheduled, w.ds.Status.NumberMisscheduled = true, 0, 1
		}, true},
		"it has none":                {func(w *world) { w.pod.Labels = nil }, false},
		"its pods were made without": {func(w *world) { w.pod.Spec.HostNetwork = false }, false},
		"it was in the spec":         {func(w *world) { w.before, w.pod.Labels = had, nil }, true},
		"one of its name was":        {func(w *world) { w.before, w.pod.Labels, w.ds.UID = had, nil, "another" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ds: checker(port)}
			w.pod = checkerPod(w.ds)
			c.change(w)
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			if w.before != nil {
				pass(t, r, w.before, checker(port))
			}
			if err := r.client.Create(t.Context(), w.pod); err != nil {
				t.Fatal(err)
			}
			if w.behind {
				r.client = withoutPods{r.client}
			}
			if got, retiring := pass(t, r, set, w.ds); (len(got) > 0) != c.asked || !slices.Equal(retiring, []int32{port}) {
				t.Errorf("asks %v of %v, want %t", got, retiring, c.asked)
			}
		})
	}
	t.Run("one after the other", func(t *testing.T) {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		live := &counted{Reader: r.live}
		r.live = live
		ds := checker(port)
		pod := checkerPod(ds)
		expect := func(what string, asked bool, lists int) {
			t.Helper()
			if got, _ := pass(t, r, set, ds); (len(got) > 0) != asked || live.lists != lists {
				t.Errorf("%s: asks %v, want %t; the API server was asked %d times, want %d", what, got, asked, live.lists, lists)
			}
		}
		expect("it counts pods that are not there", false, 1)
		expect("again", false, 1)
		ds.ResourceVersion = "2"
		expect("it has changed", false, 2)
		if err := r.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		expect("a pod came", true, 2)
		if err := r.client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		expect("its process may outlive it", true, 2)
	})
	t.Run("many", func(t *testing.T) {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		var all []*appsv1.DaemonSet
		for port := int32(1100); port > 1000; port-- {
			ds := checker(port)
			all = append(all, ds)
			if port > 1050 {
				if err := r.client.Create(t.Context(), checkerPod(ds)); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, retiring := pass(t, r, set, all...)
		if len(got) != 50 || got[0] != 1051 || len(retiring) != 50+mostDeserted || retiring[mostDeserted-1] != 1000+mostDeserted {
			t.Errorf("asks %v of %v, want 50, and to look after the oldest %d of the others", got, retiring, mostDeserted)
		}
	})
	t.Run("of the system", func(t *testing.T) {
		r, _, err := newReconciler(set)
		if err != nil {
			t.Fatal(err)
		}
		var all []*appsv1.DaemonSet
		for _, port := range []int32{22, 1023, 1024, 2379, 10250, 10251} {
			ds := checker(port)
			all = append(all, ds)
			if err := r.client.Create(t.Context(), checkerPod(ds)); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := pass(t, r, set, all...); !slices.Equal(got, []int32{1024, 10251}) {
			t.Errorf("asks %v", got)
		}
	})
	t.Run("what is deserted is told to be so", func(t *testing.T) {
		sessions := newSessions(time.Now)
		o := &observed{session: sessions.pass(set), set: set, checkers: map[int32]*appsv1.DaemonSet{10090: checker(10090), 22: checker(22)}}
		endpoints := []endpoint{
			{Port: healthclient.Port{Node: "node-1", Number: 10090}, deserted: true},
			{Port: healthclient.Port{Node: "node-1", Number: 22}, barred: true},
		}
		got := o.answers(&nodeObjects{reading: &reading{endpoints: endpoints, gone: []bool{false, false}}})
		if len(got) != 2 || !got[0].Gone || !got[0].Retiring || got[0].Answered || got[1].Gone || !got[1].Retiring || got[1].Answered {
			t.Errorf("got %+v", got)
		}
	})
}
