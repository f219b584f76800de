package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

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
				u.MinServingNodes = new(int32)
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
		u.MinServingNodes, u.AnnotateNodeToDetach.GracePeriodSeconds = new(int32), new(int32(5))
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
func (f *fixture) request(set *v1alpha1.IngressDaemonSet, node string) (out objects.Request) {
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
