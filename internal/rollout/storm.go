package rollout

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod with spec.nodeName that the kubelet rejects is replaced by its
// ReplicaSet at once, ten times a second. So at the first rejection no more pods
// are asked for than run, and all are tried again later: after a time that
// doubles from a second to a quarter of an hour, or when older pods have gone,
// whose ports and CPU the new ones may have waited for.

const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Minute
)

// guard keeps a node from a storm of rejected pods. It is whether this decision
// leaves the node at that.
func (p *planner) guard(v *view) bool {
	d, failed := v.Deployment, v.failedPods()
	if len(failed) > 0 {
		p.do(Step{Action: DeletePods, Node: v.Name, Pods: failed, Reason: v.rejection()})
	}
	switch h := d.Hold; {
	case len(failed) > 0 && (h == nil || h.Trying):
		p.holdBack(v)
		return true
	case h == nil:
		return false
	case h.Trying:
		if ok, _, _ := v.complete(p.Now, p.minReady()); !ok {
			return false
		}
		p.wait(v, v1alpha1.NodeUpdating, h.At.Time, "its pods are accepted")
		p.act(v, Step{Action: SetFields, Reason: "its pods are accepted"})
		return true
	case len(failed) > 0:
		p.wait(v, v1alpha1.NodeUnavailable, h.At.Time, h.Reason)
		return true
	case p.heldBack(v) || v.target != h.Revision:
		return false
	default:
		return p.retry(v)
	}
}

func (p *planner) retry(v *view) bool {
	d := v.Deployment
	h := *d.Hold
	if d.Revision != h.Revision && !v.marked() && !p.wave[v.Name] {
		return false
	}
	h.Trying, h.At = true, metav1.NewMicroTime(p.Now)
	p.wait(v, v1alpha1.NodeUpdating, p.Now, "its pods are tried again")
	p.act(v, Step{Action: Update, Revision: h.Revision, Replicas: p.pods, Hold: &h, Reason: fmt.Sprintf("after attempt %d", h.Attempts)})
	return true
}

// heldBack is whether the revision that the node should have was rejected there
// and it is not time yet to try again.
func (p *planner) heldBack(v *view) bool {
	h := v.Deployment.Hold
	if h == nil || h.Trying || h.Revision != v.target {
		return false
	}
	due := h.At.Add(backoff(h.Attempts))
	if h.Terminating && !v.anyTerminating() {
		due = h.At.Add(firstRetry)
	}
	p.wake(due)
	return p.Now.Before(due)
}

// holdBack asks for no more pods than run. Where only pods of an older revision
// run it goes back to that one; a pod that runs is never given up for it.
func (p *planner) holdBack(v *view) {
	d := v.Deployment
	h := &Hold{Revision: d.Revision, Reason: v.rejection(), At: metav1.NewMicroTime(p.Now), Attempts: 1, Terminating: v.anyTerminating()}
	if d.Hold != nil && d.Hold.Revision == h.Revision {
		h.Attempts = d.Hold.Attempts + 1
	}
	present, older, revision := v.running()
	step := Step{Action: HoldBack, Revision: d.Revision, Replicas: present, Hold: h, Reason: h.Reason}
	switch {
	case present == 0 && older > 0 && p.Revisions[revision]:
		step.Revision, step.Replicas = revision, d.PodsPerNode
	case older > 0:
		// The Deployment controller then takes what is too much from the
		// ReplicaSet with the most pods asked for, which is the rejected one.
		surge, _ := v1alpha1.Resolve(p.strategy.MaxSurgedPods, int(p.pods))
		step.Replicas = max(present, present+older-int32(surge))
	}
	h.Replicas = step.Replicas
	p.wait(v, v1alpha1.NodeUnavailable, p.Now, h.Reason)
	p.wake(p.Now.Add(firstRetry))
	p.act(v, step)
}

// backoff is how long to wait after so many attempts.
func backoff(attempts int) time.Duration {
	d := firstRetry
	for i := 1; i < attempts && d < lastRetry; i++ {
		d *= 2
	}
	return min(d, lastRetry)
}

func (n *Node) failedPods() []string {
	var names []string
	for _, p := range n.Pods {
		if p.Failed != "" && !p.Terminating {
			names = append(names, p.Name)
		}
	}
	return names
}

func (n *Node) rejection() string {
	for _, p := range n.Pods {
		if p.Failed != "" {
			return "the kubelet rejects its pods: " + p.Failed
		}
	}
	return ""
}

func (n *Node) anyTerminating() bool {
	for _, p := range n.Pods {
		if p.Terminating && p.Failed == "" {
			return true
		}
	}
	return false
}

// running counts the pods that run of the Deployment's revision and of the
// older revision that has most of them.
func (n *Node) running() (present, older int32, revision string) {
	counts := map[string]int32{}
	for _, p := range n.Pods {
		if p.Running && !p.Terminating && p.Failed == "" {
			counts[p.Revision]++
		}
	}
	for _, p := range n.Pods {
		if c := counts[p.Revision]; p.Revision != n.Deployment.Revision && c > older {
			older, revision = c, p.Revision
		}
	}
	return counts[n.Deployment.Revision], older, revision
}
