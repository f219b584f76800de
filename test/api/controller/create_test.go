package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// rich has everything in its template that the controller must resolve or keep.
func rich(set *v1alpha1.IngressDaemonSet) {
	named := func() corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("admin")}}
	}
	set.Spec.MinReadySeconds = 1
	set.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "proxy", "app.kubernetes.io/part-of": "edge"},
			Annotations: map[string]string{"prometheus.io/port": "10254"},
		},
		Spec: corev1.PodSpec{
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: new(int64(3)),
			Tolerations:                   []corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists}},
			Volumes:                       []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "proxy", Image: "proxy:v1",
				Env:            []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
				Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 80}, {Name: "admin", ContainerPort: 10254}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: named()},
				LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
				Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: named().HTTPGet}},
				VolumeMounts:   []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}},
			}, {
				Name: "log", Image: "log:v1",
			}},
		},
	}
}

// byHand is the template as the API server would have it in a Deployment that
// the user wrote by hand.
func (f *fixture) byHand(set *v1alpha1.IngressDaemonSet) corev1.PodTemplateSpec {
	f.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "by-hand"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}, Template: set.Spec.Template},
	}
	f.must(api.Create(f.Context(), d, client.DryRunAll))
	return d.Spec.Template
}

// daemonTolerations are what the DaemonSet controller gives to every daemon pod.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: "node.kubernetes.io/" + key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	out := []corev1.Toleration{
		exists("not-ready", corev1.TaintEffectNoExecute), exists("unreachable", corev1.TaintEffectNoExecute),
		exists("disk-pressure", corev1.TaintEffectNoSchedule), exists("memory-pressure", corev1.TaintEffectNoSchedule),
		exists("pid-pressure", corev1.TaintEffectNoSchedule), exists("unschedulable", corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		out = append(out, exists("network-unavailable", corev1.TaintEffectNoSchedule))
	}
	return out
}

// checkTemplate compares a Deployment's whole template with what the user wrote,
// changed in what DESIGN.md names and in nothing else.
func (f *fixture) checkTemplate(set *v1alpha1.IngressDaemonSet, d *appsv1.Deployment, node string) {
	f.Helper()
	want := f.byHand(set)
	want.Labels = joined(want.Labels, map[string]string{
		v1alpha1.LabelName: set.Name, v1alpha1.LabelNode: node, v1alpha1.LabelRevision: set.Status.UpdateRevision,
	})
	want.Annotations = joined(want.Annotations, map[string]string{v1alpha1.AnnotationNode: node})
	want.Spec.NodeName = node
	want.Spec.Tolerations = append(want.Spec.Tolerations, daemonTolerations(want.Spec.HostNetwork)...)
	if want.Spec.HostNetwork {
		for i := range want.Spec.Containers {
			want.Spec.Containers[i].Ports = nil
		}
		if c := want.Spec.Containers[0]; c.ReadinessProbe != nil {
			c.ReadinessProbe.HTTPGet.Port = intstr.FromInt32(10254)
			c.LivenessProbe.TCPSocket.Port = intstr.FromInt32(80)
			c.Lifecycle.PreStop.HTTPGet.Port = intstr.FromInt32(10254)
		}
	}
	if diff := cmp.Diff(want, d.Spec.Template); diff != "" {
		f.Errorf("template of %s:\n%s", d.Name, diff)
	}
}

func joined(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// TestCreation compares all that the controller makes of a Deployment.
func TestCreation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", rich)
	f.complete(set)
	deployments := f.deployments(set)
	if len(deployments) != 2 {
		t.Fatalf("there are %d Deployments", len(deployments))
	}
	for _, node := range f.nodes {
		d := deployments[node]
		own := map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelNode: node}
		if d.Name != "proxy-"+node {
			t.Errorf("the name is %s", d.Name)
		}
		if diff := cmp.Diff(joined(set.Spec.Template.Labels, own), d.Labels); diff != "" {
			t.Errorf("labels:\n%s", diff)
		}
		owner := []metav1.OwnerReference{{
			APIVersion: "ingressdaemonsets.mumoshu.github.io/v1alpha1", Kind: "IngressDaemonSet", Name: "proxy", UID: set.UID,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}}
		if diff := cmp.Diff(owner, d.OwnerReferences); diff != "" {
			t.Errorf("owners:\n%s", diff)
		}
		if d.Annotations[v1alpha1.AnnotationNode] != node || d.Annotations[v1alpha1.AnnotationPodsPerNode] != "2" {
			t.Errorf("annotations: %v", d.Annotations)
		}
		want := appsv1.DeploymentSpec{
			Replicas: new(int32(2)), MinReadySeconds: 1, RevisionHistoryLimit: new(int32), ProgressDeadlineSeconds: new(int32(600)),
			Selector: &metav1.LabelSelector{MatchLabels: own},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: new(intstr.FromString("100%")), MaxSurge: new(intstr.FromInt32(0)),
			}},
			Template: d.Spec.Template,
		}
		if diff := cmp.Diff(want, d.Spec); diff != "" {
			t.Errorf("spec:\n%s", diff)
		}
		f.checkTemplate(set, d, node)
		if n := len(f.pods(set, node)); n != 2 {
			t.Errorf("%d pods are on %s", n, node)
		}
	}
}

// TestDegradedStrategy copies the pods' budgets, in either spelling.
func TestDegradedStrategy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	set := f.create("proxy", withoutChecks, rolling(func(u *v1alpha1.RollingUpdate) {
		*u = v1alpha1.RollingUpdate{MaxUnavaiablePodsPerNode: new(intstr.FromString("50%")), MaxSurgedPodsPerNode: new(intstr.FromInt32(2))}
	}))
	f.complete(set)
	s := f.deployment(set, f.nodes[0]).Spec.Strategy.RollingUpdate
	if s.MaxUnavailable.String() != "50%" || s.MaxSurge.String() != "2" {
		t.Errorf("the strategy is %v and %v", s.MaxUnavailable, s.MaxSurge)
	}
}

// TestHostPort stops a pod that holds a port of the host before the next starts.
// The budget for pods goes and comes with the strategy's type.
func TestHostPort(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	withPort := func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.PodsPerNode = new(int32(1))
		set.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(intstr.IntOrString)
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	set := f.create("proxy", withPort)
	f.complete(set)
	d := f.deployment(set, f.nodes[0])
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || len(d.Spec.Template.Spec.Containers[0].Ports) != 1 {
		t.Errorf("the strategy is %v, ports are %v", d.Spec.Strategy, d.Spec.Template.Spec.Containers[0].Ports)
	}
	f.checkTemplate(set, d, f.nodes[0])
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.Containers[0].Ports = nil
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurgedPodsPerNode = new(intstr.FromInt32(1))
	})
	f.complete(set)
	if s := f.deployment(set, f.nodes[0]).Spec.Strategy; s.RollingUpdate == nil || s.RollingUpdate.MaxSurge.String() != "1" {
		t.Errorf("the strategy is %v", s)
	}
	f.change(set, withPort, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurgedPodsPerNode = nil
	})
	f.complete(set)
	if s := f.deployment(set, f.nodes[0]).Spec.Strategy; s.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the strategy is %v", s)
	}
}

// TestScheduler lets the scheduler place the pods, with their ports declared.
func TestScheduler(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.PodPlacement = v1alpha1.PlaceByScheduler
		set.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}
		set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "nowhere", Operator: corev1.NodeSelectorOpExists}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: fixtureLabel, Operator: corev1.NodeSelectorOpExists}}},
			}},
		}}
	})
	f.complete(set)
	for _, node := range f.nodes {
		template := f.deployment(set, node).Spec.Template
		want := f.byHand(set)
		want.Spec.Tolerations = daemonTolerations(false)
		for i := range want.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			term := &want.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]
			term.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
		}
		if diff := cmp.Diff(want.Spec, template.Spec); diff != "" {
			t.Errorf("template:\n%s", diff)
		}
		if n := len(f.pods(set, node)); n != 2 {
			t.Errorf("the scheduler put %d pods on %s", n, node)
		}
	}
}

// TestRevisions keeps the user's templates on record, from the start, as they
// were written.
func TestRevisions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	set := f.create("proxy", rich, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.RevisionHistoryLimit = new(int32(1))
		set.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(intstr.IntOrString)
	})
	for i, v := range []string{"v1", "v2", "v3", "v4"} {
		f.change(set, version(v))
		f.complete(set)
		var revisions []appsv1.ControllerRevision
		f.eventually("one old revision is kept", func() error {
			if revisions = f.revisions(set); len(revisions) != min(i+1, 2) {
				return fmt.Errorf("there are %d after %d", len(revisions), i+1)
			}
			return nil
		})
		newest := revisions[len(revisions)-1]
		if newest.Labels[v1alpha1.LabelRevision] != set.Status.UpdateRevision || set.Status.CurrentRevision != set.Status.UpdateRevision {
			t.Errorf("the newest revision is %v, the status says %s", newest.Labels, set.Status.UpdateRevision)
		}
		var recorded corev1.PodTemplateSpec
		f.must(json.Unmarshal(newest.Data.Raw, &recorded))
		if diff := cmp.Diff(set.Spec.Template, recorded); diff != "" {
			t.Errorf("the record of %s:\n%s", v, diff)
		}
	}
}

func (f *fixture) revisions(set *v1alpha1.IngressDaemonSet) []appsv1.ControllerRevision {
	f.Helper()
	list := &appsv1.ControllerRevisionList{}
	f.must(api.List(f.Context(), list, client.InNamespace(f.ns), client.MatchingLabels{v1alpha1.LabelName: set.Name}, client.HasLabels{v1alpha1.LabelRevision}))
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// TestHealthCheckers makes a DaemonSet for each port and the access it needs,
// follows changes of them, and repairs what somebody deletes.
func TestHealthCheckers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port, port + 1} })
	f.complete(set)
	names := func() []string {
		list := &appsv1.DaemonSetList{}
		f.must(api.List(t.Context(), list, client.InNamespace(f.ns)))
		var out []string
		for _, ds := range list.Items {
			if !metav1.IsControlledBy(&ds, set) {
				t.Errorf("DaemonSet %s is not owned", ds.Name)
			}
			out = append(out, ds.Name)
		}
		slices.Sort(out)
		return out
	}
	if got := names(); !slices.Equal(got, []string{"proxy-10080", "proxy-10081"}) {
		t.Errorf("the DaemonSets are %v", got)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "proxy-healthchecker"}}
	f.read(account)
	binding := f.checkerBinding("proxy-healthchecker")
	want := rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "ingress-daemonset-healthchecker"}
	if binding.RoleRef != want || !metav1.IsControlledBy(account, set) || !metav1.IsControlledBy(binding, set) {
		t.Errorf("the account is %v, the binding %v", account, binding)
	}

	t.Log("what somebody deletes comes back")
	for _, deleted := range []client.Object{account, binding} {
		uid := deleted.GetUID()
		f.must(api.Delete(t.Context(), deleted))
		f.eventually(deleted.GetName()+" is there again", func() error {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(deleted), deleted); err != nil {
				return err
			}
			if deleted.GetUID() == uid {
				return fmt.Errorf("it is still the old one")
			}
			return nil
		})
	}

	t.Log("a port less, and an account of the user's own")
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.HealthCheckNodePorts = []int32{port}
		set.Spec.HealthChecker.ServiceAccountName = "default"
	})
	f.release(set, port+1)
	f.eventually("one DaemonSet with that account is left", func() error {
		ds := &appsv1.DaemonSet{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: "proxy-10080"}, ds); err != nil {
			return err
		}
		if got := ds.Spec.Template.Spec.ServiceAccountName; got != "default" || len(names()) != 1 {
			return fmt.Errorf("there are %v, of account %s", names(), got)
		}
		return nil
	})
	f.checkerBinding("default")
	f.complete(set)
}

// TestNoAccountOfItsOwn makes no account where the user names one.
func TestNoAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthChecker.ServiceAccountName = "default" })
	f.complete(set)
	accounts := &corev1.ServiceAccountList{}
	f.must(api.List(t.Context(), accounts, client.InNamespace(f.ns)))
	if len(accounts.Items) != 1 {
		t.Errorf("there are %d service accounts", len(accounts.Items))
	}
	f.checkerBinding("default")
}

// checkerBinding is the binding of the account to the health checkers' role.
func (f *fixture) checkerBinding(account string) *rbacv1.RoleBinding {
	f.Helper()
	var found *rbacv1.RoleBinding
	f.eventually("a binding of "+account, func() error {
		list := &rbacv1.RoleBindingList{}
		if err := api.List(f.Context(), list, client.InNamespace(f.ns)); err != nil {
			return err
		}
		for i, b := range list.Items {
			if len(b.Subjects) == 1 && b.Subjects[0] == (rbacv1.Subject{Kind: "ServiceAccount", Namespace: f.ns, Name: account}) {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	return found
}

// TestCollidingNames gives every node of every set its own Deployment where the
// names of two are the same, are taken by somebody else, or are too long.
func TestCollidingNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	node := f.nodes[0]
	f.addNode("b-" + node)
	long := f.ns + strings.Repeat("-very-long", 20)
	f.addNode(long)
	foreign := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "a-" + node, Labels: map[string]string{v1alpha1.LabelName: "a"}},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": "y"}}, Spec: base("", "").Spec.Template.Spec}},
	}
	f.must(api.Create(t.Context(), foreign))
	longest := strings.Repeat("n", 52)
	sets := []*v1alpha1.IngressDaemonSet{f.create("a"),
		f.create("a-b", func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port + 1} }),
		f.create(longest, withoutChecks)}
	for _, set := range sets {
		f.complete(set)
		f.change(set, version("v2"))
	}
	taken := map[string]bool{}
	for _, set := range sets {
		f.complete(set)
		for _, name := range f.nodes {
			d := f.deployment(set, name)
			if taken[d.Name] || d.Spec.Template.Spec.NodeName != name || d.Spec.Template.Spec.Containers[0].Image != "proxy:v2" {
				t.Errorf("Deployment %s is for %s", d.Name, d.Spec.Template.Spec.NodeName)
			}
			taken[d.Name] = true
			if n := len(f.pods(set, name)); n != 2 {
				t.Errorf("%s has %d pods on %s", set.Name, n, name)
			}
		}
	}
	if !taken["a-b-"+node] || taken["a-"+node] || len(taken) != 9 {
		t.Errorf("the names are %v", slices.Sorted(maps.Keys(taken)))
	}
	if got := f.deployment(sets[0], long).Labels[v1alpha1.LabelNode]; got != v1alpha1.LabelValue(long) || len(got) > 63 {
		t.Errorf("the label of the long node is %s", got)
	}
	untouched := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: foreign.Name}}
	f.read(untouched)
	if untouched.Generation != 1 || len(untouched.OwnerReferences) > 0 || !cmp.Equal(untouched.Labels, foreign.Labels) ||
		slices.ContainsFunc(untouched.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == accountName }) {
		t.Errorf("the foreign Deployment was touched: %v", untouched.ObjectMeta)
	}
}

// TestForeignObjects names what belongs to somebody else and is in the way, and
// takes its place when it is gone.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	for kind, foreign := range map[string]client.Object{
		"DaemonSet": &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": "y"}},
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"no": "where"}, Containers: []corev1.Container{{Name: "x", Image: "x"}}}},
		}},
		"ServiceAccount": &corev1.ServiceAccount{},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			foreign.SetNamespace(f.ns)
			foreign.SetName(map[string]string{"DaemonSet": "proxy-" + portString, "ServiceAccount": "proxy-healthchecker"}[kind])
			f.must(api.Create(t.Context(), foreign))
			set := f.create("proxy")
			blocked := f.waitReason(set, v1alpha1.ConditionBlocked, v1alpha1.ReasonForeignObject)
			if !strings.Contains(blocked.Message, foreign.GetName()) {
				t.Errorf("the message is %q", blocked.Message)
			}
			f.eventually("the node has pods all the same", func() error {
				if n := len(f.pods(set, f.nodes[0])); n != 2 {
					return fmt.Errorf("it has %d", n)
				}
				return nil
			})
			version := foreign.GetResourceVersion()
			f.read(foreign)
			if kind == "ServiceAccount" && foreign.GetResourceVersion() != version || len(foreign.GetOwnerReferences()) > 0 {
				t.Errorf("the foreign object was touched: %v", foreign)
			}
			f.event(set, v1alpha1.ReasonForeignObject)
			f.must(api.Delete(t.Context(), foreign))
			f.complete(set)
		})
	}
}
