package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// TestTemplateChanges shows that a Deployment has what the user's template has
// and nothing more, whatever was removed from it, also after somebody else's
// changes of the Deployment were removed.
func TestTemplateChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", rich)
	f.complete(set)
	check := func() {
		t.Helper()
		f.complete(set)
		for node, d := range f.deployments(set) {
			f.checkTemplate(set, d, node)
			for _, pod := range f.pods(set, node) {
				if len(pod.Spec.Containers) != len(set.Spec.Template.Spec.Containers) {
					t.Errorf("pod %s runs %d containers", pod.Name, len(pod.Spec.Containers))
				}
			}
		}
	}
	check()

	t.Log("less of everything, after fields were set that restart no pod")
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.MinReadySeconds = 0 })
	check()
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		spec := &set.Spec.Template.Spec
		spec.Containers, spec.Volumes, spec.Tolerations = spec.Containers[:1], nil, nil
		spec.Containers[0].Env, spec.Containers[0].VolumeMounts = spec.Containers[0].Env[:1], nil
		delete(set.Spec.Template.Annotations, "prometheus.io/port")
		delete(set.Spec.Template.Labels, "app.kubernetes.io/part-of")
	})
	check()
	for _, d := range f.deployments(set) {
		if _, left := d.Labels["app.kubernetes.io/part-of"]; left {
			t.Errorf("a label is left on %s", d.Name)
		}
	}

	t.Log("more again, while somebody adds to it, and less of what was added with it")
	node := f.nodes[0]
	f.kubectl("set", "env", "deployment/proxy-"+node, "FOREIGN=1")
	more := func(set *v1alpha1.IngressDaemonSet) {
		c := &set.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "C", Value: "3"})
		set.Spec.Template.Labels["more"] = "yes"
	}
	f.change(set, more)
	check()
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.Containers[0].Env = nil
		delete(set.Spec.Template.Labels, "more")
	})
	check()
	for _, d := range f.deployments(set) {
		if _, left := d.Labels["more"]; left {
			t.Errorf("a label is left on %s", d.Name)
		}
	}
}

// TestKeepsWhatOthersSay keeps labels and annotations of others.
func TestKeepsWhatOthersSay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	lastOne := rolling(func(u *v1alpha1.RollingUpdate) { u.MinServingNodes = new(intstr.IntOrString) })
	set := f.create("proxy", lastOne)
	f.complete(set)
	name := "deployment/proxy-" + f.nodes[0]
	f.kubectl("label", name, "team=edge")
	f.kubectl("annotate", name, "note=mine")
	f.change(set, version("v2"))
	f.complete(set)
	f.kubectl("set", "env", name, "FOREIGN=1")
	f.waitClean(set)
	if d := f.deployment(set, f.nodes[0]); d.Labels["team"] != "edge" || d.Annotations["note"] != "mine" {
		t.Errorf("labels are %v, annotations %v", d.Labels, d.Annotations)
	}
}

// TestPodsPerNode rolls a number of pods out like a template: node by node, each
// after it was detached.
func TestPodsPerNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	seen := f.record(set)
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.PodsPerNode = new(int32(3)) })
	f.complete(set)
	for _, node := range f.nodes {
		if n := len(f.pods(set, node)); n != 3 {
			t.Errorf("%d pods are on %s", n, node)
		}
	}
	f.checkHandshake(seen())
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.PodsPerNode = new(int32(1)) })
	f.complete(set)
	if n := len(f.pods(set, "")); n != 2 {
		t.Errorf("%d pods are left", n)
	}
}

// checkHandshake fails where a spec was written while its Deployment was not
// marked, or where two were marked at a time.
func (f *fixture) checkHandshake(seen []*appsv1.Deployment) {
	f.Helper()
	if len(seen) == 0 {
		f.Error("nothing happened")
	}
	now := map[string]*appsv1.Deployment{}
	for _, d := range seen {
		before := now[d.Name]
		now[d.Name] = d
		if before != nil && !equality.Semantic.DeepEqual(before.Spec, d.Spec) && !marked(before) {
			f.Errorf("the spec of %s was changed, which was not marked", d.Name)
		}
		var out []string
		for name, d := range now {
			if marked(d) {
				out = append(out, name)
			}
		}
		if len(out) > 1 {
			f.Errorf("these are marked together: %v", out)
		}
	}
}

// TestSelectorLabels changes the labels of Deployments and pods, and no selector.
func TestSelectorLabels(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	match := func(labels map[string]string) change {
		return func(set *v1alpha1.IngressDaemonSet) {
			set.Spec.Selector = &v1alpha1.Selector{MatchLabels: labels}
			set.Spec.UpdateStrategy.RollingUpdate.MinServingNodes = new(intstr.IntOrString)
		}
	}
	set := f.create("proxy", match(map[string]string{"edge": "a", "old": "yes"}))
	f.complete(set)
	before := f.deployment(set, f.nodes[0])
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Selector = nil }, match(map[string]string{"edge": "b"}))
	// A merge patch leaves the label that was not mentioned.
	f.patch(set, `{"spec": {"selector": {"matchLabels": {"old": null}}}}`)
	f.complete(set)
	d := f.deployment(set, f.nodes[0])
	if d.UID != before.UID || !cmp.Equal(d.Spec.Selector, before.Spec.Selector) {
		t.Error("the Deployment was replaced, or its selector")
	}
	own := map[string]string{v1alpha1.LabelName: "proxy", v1alpha1.LabelNode: f.nodes[0]}
	if diff := cmp.Diff(joined(own, map[string]string{"edge": "b"}), d.Labels); diff != "" {
		t.Errorf("labels:\n%s", diff)
	}
	for _, pod := range f.pods(set, "") {
		if pod.Labels["edge"] != "b" || pod.Labels["old"] != "" || pod.Labels["app"] != "proxy" {
			t.Errorf("the pod's labels are %v", pod.Labels)
		}
	}
}

// TestFieldsThatRestartNothing reach the Deployments at once, whatever nodes wait for.
func TestFieldsThatRestartNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	before := f.pods(set, "")
	f.change(set, func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.MinReadySeconds = 2
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurgedPodsPerNode = new(intstr.FromInt32(1))
	})
	f.eventually("both fields are set", func() error {
		for name, d := range f.deployments(set) {
			if d.Spec.MinReadySeconds != 2 || d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
				return fmt.Errorf("they are not on %s", name)
			}
		}
		return nil
	})
	f.complete(set)
	if diff := cmp.Diff(uids(before), uids(f.pods(set, ""))); diff != "" {
		t.Errorf("pods were replaced:\n%s", diff)
	}
}

// uids are the keys alone.
func uids[K comparable, V any](m map[K]V) map[K]bool {
	out := map[K]bool{}
	for uid := range m {
		out[uid] = true
	}
	return out
}

// TestDrift removes what others change in a Deployment's spec: in a detaching
// fleet only after its node is detached, and no more than once.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, drift := range map[string]func(f *fixture, deployment string){
		"set-env":         func(f *fixture, d string) { f.kubectl("set", "env", d, "FOREIGN=1") },
		"rollout-restart": func(f *fixture, d string) { f.kubectl("rollout", "restart", d) },
		"scale":           func(f *fixture, d string) { f.kubectl("scale", d, "--replicas=5") },
		"pause":           func(f *fixture, d string) { f.kubectl("rollout", "pause", d) },
	} {
		for mode, adjust := range map[string]change{"detaching": func(*v1alpha1.IngressDaemonSet) {}, "degraded": func(set *v1alpha1.IngressDaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxDegradedNodes: new(intstr.FromInt32(1))}
		}} {
			t.Run(name+"-"+mode, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, 2)
				set := f.create("proxy", adjust)
				f.complete(set)
				start := time.Now()
				drift(f, "deployment/proxy-"+f.nodes[0])
				drifted := f.record(set)
				f.waitClean(set)
				// A change of the template takes all pods of the node at once, after which
				// there is nothing that a handshake could protect.
				takesPods := name == "set-env" || name == "rollout-restart"
				if mode == "detaching" && !takesPods {
					f.checkHandshake(drifted())
				}
				f.checkTemplate(set, f.deployment(set, f.nodes[0]), f.nodes[0])
				if d := f.deployment(set, f.nodes[0]); *d.Spec.Replicas != 2 || d.Spec.Paused || d.Annotations["deployment.kubernetes.io/paused"] != "" {
					t.Errorf("%d replicas are left, paused: %v", *d.Spec.Replicas, d.Spec.Paused)
				}
				var writes []audit.Event
				for _, e := range audit.Writes(f.since(start)) {
					if e.ObjectRef.Resource == "deployments" {
						writes = append(writes, e)
					}
				}
				most := map[string]int{"detaching": 3, "degraded": 1}[mode]
				if mode == "detaching" && takesPods && markedOutOfTurn(drifted()) {
					// It was seen while its old pods had gone and the new ones did not serve yet. Once
					// they do it is let go, and waits for its turn.
					most += 2
				}
				updates := slices.DeleteFunc(slices.Clone(writes), func(e audit.Event) bool { return e.Verb != "update" })
				if len(writes) > most || len(updates) > 1 {
					t.Errorf("it took %d writes, %d of them updates: %v\n%s", len(writes), len(updates), writes, versions(drifted()))
				}
			})
		}
	}
}

// markedOutOfTurn reports whether a Deployment was marked while its node served nothing.
func markedOutOfTurn(seen []*appsv1.Deployment) bool {
	return slices.ContainsFunc(seen, func(d *appsv1.Deployment) bool {
		return strings.HasSuffix(d.Annotations[v1alpha1.DefaultMarkKey], v1alpha1.MarkOutOfTurn)
	})
}

// versions is what became of Deployments, a line for each change.
func versions(seen []*appsv1.Deployment) string {
	var lines []string
	for _, d := range seen {
		spec := *d.Spec.DeepCopy()
		spec.Template = corev1.PodTemplateSpec{ObjectMeta: spec.Template.ObjectMeta}
		text, err := json.Marshal(map[string]any{"annotations": d.Annotations, "spec": spec, "status": d.Status})
		lines = append(lines, fmt.Sprint(d.Name, " at ", d.ResourceVersion, " ", string(text), err))
	}
	return strings.Join(lines, "\n")
}

// waitClean waits until no one else has a say in the spec of a Deployment, and
// every node serves.
func (f *fixture) waitClean(set *v1alpha1.IngressDaemonSet) {
	f.Helper()
	f.eventually("nobody else's changes are left", func() error {
		for _, d := range f.deployments(set) {
			for _, e := range d.ManagedFields {
				if e.Manager != accountName && e.Subresource != "status" && strings.Contains(e.FieldsV1.GetRawString(), `"f:spec"`) {
					return fmt.Errorf("%s has fields of %s", d.Name, e.Manager)
				}
			}
		}
		return nil
	})
	f.complete(set)
}

// TestDeletedDeployment makes again what somebody deletes.
func TestDeletedDeployment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	d := f.deployment(set, f.nodes[0])
	f.must(api.Delete(t.Context(), d, client.PropagationPolicy("Background")))
	f.eventually("it is there again", func() error {
		if again := f.deployments(set)[f.nodes[0]]; again == nil || again.UID == d.UID {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	f.complete(set)
}
