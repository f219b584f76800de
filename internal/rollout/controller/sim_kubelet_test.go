package controller

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// simPod is a pod and the containers behind it.
type simPod struct {
	api *corev1.Pod

	name, node     string
	owner          *simDeployment
	set            *replicaSet
	created        time.Time
	running, ready bool
	readySince     time.Time
	// skew is how far the clock of its kubelet is ahead.
	skew            time.Duration
	terminating     bool
	deleted, endsAt time.Time
	// notReadyByNode says whether the API server says that the pod is not ready because
	// its node is not.
	notReadyByNode bool
	// disrupted is the reason of the condition that says that it was evicted.
	disrupted string
	failed    string
}

func (p *simPod) image() string { return imageOf(p.set.template) }

func (p *simPod) revision() string { return p.set.revision() }

// putPod writes a pod as it is now.
func (w *world) putPod(p *simPod) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: theSet.Namespace, Name: p.name, UID: types.UID(p.name), Labels: p.set.labels(), Annotations: p.set.template.Annotations,
		CreationTimestamp: metav1.NewTime(p.created), DeletionTimestamp: p.deletedAt(), DeletionGracePeriodSeconds: p.grace(),
	}, Spec: corev1.PodSpec{NodeName: p.node}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	switch {
	case p.failed != "":
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, p.failed
	case p.running:
		pod.Status = runningStatus(p.readySince.Add(p.skew), p.ready)
		pod.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}}
		if p.notReadyByNode {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	if p.disrupted != "" {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: p.disrupted})
	}
	if p.api != nil && p.api.DeletionTimestamp != nil {
		pod.DeletionTimestamp = p.api.DeletionTimestamp
	}
	p.api = pod
	w.api.Put(pod)
}

// grace is set of pods that terminate, as the API server sets it.
func (p *simPod) grace() *int64 {
	if !p.terminating {
		return nil
	}
	return new(int64(p.endsAt.Sub(p.deleted) / time.Second))
}

func (p *simPod) deletedAt() *metav1.Time {
	if !p.terminating {
		return nil
	}
	at := metav1.NewTime(p.endsAt)
	return &at
}

// podGone follows the end of a pod in the API server.
func (w *world) podGone(pod *corev1.Pod) {
	i := slices.IndexFunc(w.pods, func(p *simPod) bool { return p.name == pod.Name })
	if i < 0 {
		return
	}
	p := w.pods[i]
	if w.writer != nil && p.ready && !p.terminating {
		w.audit.stops(p, "the controller")
	}
	w.pods = slices.Delete(w.pods, i, i+1)
	if p.running {
		w.tell("kubelet", "%s: the last container of a pod of %s has exited", p.node, p.revision())
	}
	w.podsChanged(p.node)
}

func (w *world) createPod(d *simDeployment, s *replicaSet) {
	w.count++
	p := &simPod{name: fmt.Sprintf("%s-%d", d.api.Name, w.count), node: d.node, owner: d, set: s, created: w.now}
	if n := w.nodes[d.node]; n != nil {
		p.skew = n.skew
	}
	w.pods = append(w.pods, p)
	w.putPod(p)
	w.tolerates(p)
	w.takesOn(p)
}

// takesOn is how a kubelet takes on a pod: it rejects it where it does not fit,
// and a terminating pod still takes its place (FACTS.md: 105 OutOfcpu in 12 s).
func (w *world) takesOn(p *simPod) {
	after := w.between(50*time.Millisecond, 150*time.Millisecond)
	if w.rejections[p.node] > 60 {
		// More of them would only cost time.
		after *= 100
	}
	w.after(after, func() {
		n := w.nodes[p.node]
		switch {
		case !w.has(p) || n == nil || !n.alive || p.running || p.failed != "" || p.terminating:
			return
		case n.tainted() && n.tolerated == 0:
			p.failed = "TaintToleration"
			w.audit.rejected(p)
			w.putPod(p)
			w.podsChanged(p.node)
			return
		case n.rejects || n.capacity > 0 && w.placesTaken(n) >= n.capacity:
			p.failed = "OutOfcpu"
			w.audit.rejected(p)
			w.putPod(p)
			w.tell("kubelet", "%s: rejects a pod of %s", p.node, p.revision())
			w.podsChanged(p.node)
			return
		}
		p.running = true
		w.putPod(p)
		w.podsChanged(p.node)
		w.becomeReady(p)
	})
}

func (w *world) placesTaken(n *simNode) (taken int) {
	for _, p := range w.pods {
		if p.node == n.name && p.running {
			taken++
		}
	}
	return taken
}

// slowestStart is how long a pod of a good template may take to be ready.
const slowestStart = 6 * time.Second

func (w *world) becomeReady(p *simPod) {
	w.after(w.between(time.Second, slowestStart), func() {
		n := w.nodes[p.node]
		if !w.has(p) || n == nil || !n.alive || p.terminating || p.ready || w.bad[p.image()] {
			return
		}
		p.ready, p.readySince = true, w.now
		w.putPod(p)
		w.tell("kubelet", "%s: a pod of %s is ready", p.node, p.revision())
		w.podsChanged(p.node)
	})
}

// restart lets the containers of a pod crash once.
func (w *world) restart(p *simPod) {
	if w.has(p) && p.ready && !p.terminating {
		p.ready = false
		w.nodes[p.node].unready = w.now
		w.putPod(p)
		w.podsChanged(p.node)
		w.becomeReady(p)
	}
}

// deletePod lets a pod terminate with its grace. Its deletion is refused by nobody.
func (w *world) deletePod(p *simPod, by string) {
	if p.terminating {
		return
	}
	if n := w.nodes[p.node]; n != nil && by == others {
		if n.taken = w.now; p.disrupted != "" {
			n.drainedAt = w.now
		}
	}
	if p.ready {
		w.audit.stops(p, by)
	}
	p.terminating, p.deleted, p.endsAt = true, w.now, w.now
	w.putPod(p)
	w.podsChanged(p.node)
	w.finishPod(p)
}

func (w *world) finishPod(p *simPod) {
	grace := w.between(3*time.Second, 10*time.Second)
	if w.chance(w.quick) {
		grace = w.between(time.Millisecond, 50*time.Millisecond)
	}
	if !p.running {
		grace = 0
	}
	w.after(grace, func() {
		if n := w.nodes[p.node]; n == nil || n.alive || !p.running {
			w.removePod(p)
		}
	})
}

func (w *world) removePod(p *simPod) {
	if w.has(p) {
		w.api.Remove("Pod", theSet.Namespace, p.name)
	}
}

// kubeletStarts lets a kubelet that was away catch up.
func (w *world) kubeletStarts(n *simNode) {
	for _, p := range w.pods {
		switch {
		case p.node != n.name:
		case p.terminating:
			w.finishPod(p)
		case !p.running && p.failed == "":
			w.takesOn(p)
		case p.running && !p.ready:
			w.becomeReady(p)
		}
	}
}

// evict lets somebody else delete the pods of a node, by the eviction API or plainly.
func (w *world) evict(name string, plainly bool) {
	delete(w.audit.mustKeep, name)
	for _, p := range slices.Clone(w.pods) {
		if p.node == name && !p.terminating && p.failed == "" {
			if !plainly {
				p.disrupted = "EvictionByEvictionAPI"
			}
			w.deletePod(p, others)
		}
	}
}

// drain is what kubectl does: the pods that are there are evicted, and what is made in their
// place ends with the machine.
func (w *world) drain(n *simNode) {
	w.cordon(n, true)
	serves := w.readyPods(n.name) > 0
	w.evict(n.name, false)
	n.drains++
	drain, at := n.drains, w.now
	w.after(time.Minute, func() {
		if serves && w.nodes[n.name] == n && n.drains == drain {
			w.audit.machineGoes(n, at)
		}
	})
}

const others = "others"

func (w *world) has(p *simPod) bool { return slices.Contains(w.pods, p) }

// podsChanged tells all who watch the pods of a node.
func (w *world) podsChanged(name string) {
	w.checkersChanged(name)
	d := w.deployments[name]
	if d != nil {
		w.syncSoon(d)
	} else if d = w.left[name]; d == nil {
		return
	}
	for _, s := range d.sets {
		if int(s.size) != len(w.podsOf(d, s)) {
			w.replicate(d, s)
		}
	}
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
