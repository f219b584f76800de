package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
)

// TestClockOfTheDetacher: the grace after the detacher's timestamp is neither skipped
// nor stretched where the detacher's clock is 10 minutes behind, or ahead.
func TestClockOfTheDetacher(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"behind": -10 * time.Minute, "ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const grace = 4 * time.Second
			f := newFixture(t, 1)
			node := f.nodes[0]
			set := f.create("proxy", answered, rolling(func(u *v1alpha1.RollingUpdate) {
				u.MinServingNodes = new(intstr.IntOrString)
				u.WaitForDetachmentByAnnotatedTimestamp.GracePeriodSeconds = new(int32(grace / time.Second))
			}))
			f.complete(set)
			f.change(set, version("v2"))
			f.waitAsked(node)
			wrote := time.Now()
			f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, timestampKey, wrote.Add(skew).UTC().Format(time.RFC3339)))
			f.eventually("the node is updated", func() error {
				if image := f.deployment(set, node).Spec.Template.Spec.Containers[0].Image; image != "proxy:v2" {
					return fmt.Errorf("it has %s", image)
				}
				return nil
			})
			if took := time.Since(wrote); took < grace {
				t.Errorf("pods were replaced %s after the timestamp was written, the grace is %s", took, grace)
			}
			f.eventually("the detacher clears it", func() error { return f.clear(node) })
			f.complete(set)
		})
	}
}

// TestRequestTakenOff: where somebody takes the annotation off the Node by which we ask,
// the detacher's answer to it does not count, and the Node is asked for again.
func TestRequestTakenOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	node := f.nodes[0]
	// The grace is time to take it off before the answer is believed.
	set := f.create("proxy", answered, rolling(func(u *v1alpha1.RollingUpdate) {
		u.MinServingNodes, u.AnnotateNodeToDetach.GracePeriodSeconds = new(intstr.IntOrString), new(int32(5))
	}))
	f.complete(set)
	f.change(set, version("v2"))
	f.waitAsked(node)
	before := f.request(set, node)
	old := now()
	f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: null, %q: %q}}}`, detachKey, timestampKey, old))
	f.waitAsked(node)
	f.eventually("it is another request, to which the old timestamp is no answer", func() error {
		if again := f.request(set, node); !again.At.After(before.At) || again.StaleTimestamp != old {
			return fmt.Errorf("the request was %+v and is %+v", before, again)
		}
		return nil
	})
	f.waitFor("it waits for a new answer", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return len(set.Status.Nodes) == 1 && strings.Contains(set.Status.Nodes[0].Reason, "from an earlier detachment")
	})
	if image := f.deployment(set, node).Spec.Template.Spec.Containers[0].Image; image != "proxy:v1" {
		t.Errorf("pods of %s were replaced on an old answer", image)
	}
	f.patch(f.node(node), fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, timestampKey, time.Now().Add(time.Minute).UTC().Format(time.RFC3339)))
	f.eventually("the detacher clears it", func() error { return f.clear(node) })
	f.complete(set)
}

// request is what the IngressDaemonSet remembers on a Node of its request.
func (f *fixture) request(set *v1alpha1.IngressDaemonSet, node string) (out v1alpha1.DetachmentRequest) {
	f.Helper()
	f.must(json.Unmarshal([]byte(f.node(node).Annotations[v1alpha1.AnnotationDetachPrefix+string(set.UID)]), &out))
	return out
}

// TestMarkByHand: a mark that somebody set by hand, without a record of its key and
// without a value, is seen, and gone after a deletion that leaves the Deployments.
func TestMarkByHand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	d := f.deployment(set, f.nodes[0])
	f.patch(d, fmt.Sprintf(`{"metadata": {"annotations": {%q: ""}}}`, v1alpha1.DefaultMarkKey))
	f.waitFor("the node does not serve", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.ServingNodes == 1 && len(set.Status.Nodes) == 1 && strings.Contains(set.Status.Nodes[0].Reason, `not the controller's: ""`)
	})
	f.kubectl("delete", "ids", "proxy", "--cascade=orphan", "--wait=false")
	f.gone(set)
	f.unmarkedOrphans(2)
}

// TestRetiringPort: a health-check port that is removed from the spec goes on answering
// until it is released.
func TestRetiringPort(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	f.complete(set)
	old := &appsv1.DaemonSet{}
	key := types.NamespacedName{Namespace: f.ns, Name: objects.CheckerName(set, port)}
	f.must(api.Get(t.Context(), key, old))
	f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port + 5} })
	f.complete(set)
	f.change(set, version("v2"))
	f.complete(set)
	f.must(api.Get(t.Context(), key, old))
	if old.DeletionTimestamp != nil {
		t.Error("the removed port is closed")
	}
	other := f.create("other", func(other *v1alpha1.IngressDaemonSet) { other.Spec.HealthCheckNodePorts = []int32{port} })
	blocked := f.waitReason(other, v1alpha1.ConditionBlocked, v1alpha1.ReasonPortConflict)
	if !strings.Contains(blocked.Message, f.ns+"/proxy still answers") {
		t.Errorf("who waits for the port is told %q", blocked.Message)
	}
	f.must(api.Delete(t.Context(), other))
	f.gone(other)
	f.release(set, port)
	f.gone(old)
	f.complete(set)
}

// TestRollbackPastADeadNode: a template becomes the current one although a node is dead,
// and nodes are taken back to it when the next one is rejected.
func TestRollbackPastADeadNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	k := f.addKubelet()
	judge := newJudge(t)
	set := f.create("proxy", judge.by(v1alpha1.RollBackOnFailure), rolling(func(u *v1alpha1.RollingUpdate) { u.MaxUnavailableNodes.IntVal = 2 }))
	f.complete(set)
	k.ready.Store(false)
	f.waitFor("the node is seen to be dead", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ServingNodes == 2 })
	first := set.Status.CurrentRevision
	f.change(set, version("v2"))
	f.waitFor("the new template is the current one", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.CurrentRevision != first && set.Status.CurrentRevision == set.Status.UpdateRevision
	})
	if got := f.images(set); got["proxy:v2"] != 2 || got["proxy:v1"] != 1 {
		t.Errorf("the images are %v", got)
	}
	judge.reject(true)
	f.change(set, version("v3"))
	f.waitFor("the next one is rejected, and taken back", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.Rejected != nil && set.Status.ServingNodes == 2 && len(set.Status.Wave) == 0
	})
	k.ready.Store(true)
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonRolledBack)
	if got := f.images(set); got["proxy:v2"] != 3 {
		t.Errorf("after the rollback the images are %v", got)
	}
}

// TestNodesThatWait: a node that somebody keeps out, and one that died in its turn, hold
// up neither the replacement of health checkers nor other nodes, those that leave included.
func TestNodesThatWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	k := f.addKubelet()
	kept, leaves := f.nodes[0], f.nodes[2]
	set := f.create("proxy", rolling(func(u *v1alpha1.RollingUpdate) { u.MaxUnavailableNodes.IntVal = 4 }))
	f.complete(set)
	f.says([]string{"detached"}, "detach", kept)
	k.starts.Store(false)
	f.change(set, version("v2"))
	f.waitFor("two nodes are updated, and one is in its turn", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return set.Status.UpdatedNodes == 3 && set.Status.ServingNodes == 2 && slices.Equal(set.Status.Wave, []string{k.node})
	})
	k.ready.Store(false)
	f.waitFor("the node is seen to be dead", set, func(set *v1alpha1.IngressDaemonSet) bool { return !isReady(f.node(k.node)) })
	f.change(set, version("v3"), func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthChecker.Image = "checker:v2" })
	f.waitFor("those that serve are updated", set, func(set *v1alpha1.IngressDaemonSet) bool {
		return f.images(set)["proxy:v3"] >= 2 && set.Status.ServingNodes == 2 && set.Status.ObservedGeneration == set.Generation
	})
	for _, node := range f.nodes[:3] {
		f.eventually("the health checker of "+node+" is the new one", func() error {
			for _, pod := range f.allPods(set) {
				if pod.Labels[v1alpha1.LabelHealthCheckPort] != "" && pod.Spec.NodeName == node && pod.Spec.Containers[0].Image != "checker:v2" {
					return fmt.Errorf("one has %s", pod.Spec.Containers[0].Image)
				}
			}
			return nil
		})
	}
	f.kubectl("label", "node", leaves, fixtureLabel+"-")
	f.eventually("the node that leaves has no Deployment", func() error {
		if f.deployments(set)[leaves] != nil {
			return fmt.Errorf("it has one")
		}
		return nil
	})
	if d := f.deployment(set, kept); !marked(d) || d.Spec.Template.Spec.Containers[0].Image != "proxy:v1" {
		t.Errorf("the node that is kept out runs %s, marked %t", d.Spec.Template.Spec.Containers[0].Image, marked(d))
	}
	k.starts.Store(true)
	k.ready.Store(true)
	f.says([]string{"attached"}, "attach", kept)
	f.complete(set)
}

// TestFromDegradedToDetaching while pods are replaced stops no pod of a node that is not
// marked, whoever has them replaced.
func TestFromDegradedToDetaching(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(f *fixture, set *v1alpha1.IngressDaemonSet, node string){
		"in a turn": func(f *fixture, set *v1alpha1.IngressDaemonSet, _ string) { f.change(set, version("v2")) },
		"by somebody": func(f *fixture, set *v1alpha1.IngressDaemonSet, node string) {
			// Otherwise it would be undone at once.
			f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true })
			f.observed(set)
			f.kubectl("rollout", "restart", "deployment/proxy-"+node)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 0)
			k := f.addKubelet()
			all := intstr.FromString("100%")
			set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) {
				set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MinServingNodes: new(intstr.IntOrString), MaxSurgedPodsPerNode: &all}
			})
			f.complete(set)
			versions := f.record(set)
			k.starts.Store(false)
			replace(f, set, k.node)
			f.eventually("the Deployment controller counts the new pods beside the old ones", func() error {
				if s := f.deployment(set, k.node).Status; s.UpdatedReplicas < 2 || s.Replicas < 4 {
					return fmt.Errorf("it counts %d of %d", s.UpdatedReplicas, s.Replicas)
				}
				return nil
			})
			f.change(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = false }, rolling(func(u *v1alpha1.RollingUpdate) {
				*u = *base(f.ns, "").Spec.UpdateStrategy.RollingUpdate
				u.MinServingNodes = new(intstr.IntOrString)
			}))
			f.observed(set)
			k.starts.Store(true)
			f.complete(set)
			for _, d := range versions() {
				rolls := d.Status.UpdatedReplicas < 2 || d.Status.Replicas > d.Status.UpdatedReplicas
				if u := d.Spec.Strategy.RollingUpdate; u != nil && *u.MaxUnavailable == all && rolls && !marked(d) {
					t.Errorf("all pods may be stopped at once with %d of %d updated, unmarked", d.Status.UpdatedReplicas, d.Status.Replicas)
				}
			}
		})
	}
}

// observed waits until the controller has seen the present spec.
func (f *fixture) observed(set *v1alpha1.IngressDaemonSet) {
	f.Helper()
	f.waitFor("the present spec is seen", set, func(set *v1alpha1.IngressDaemonSet) bool { return set.Status.ObservedGeneration == set.Generation })
}
