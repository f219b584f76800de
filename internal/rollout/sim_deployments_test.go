package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// The fakes of the Deployment and the ReplicaSet controller follow
// pkg/controller/deployment of Kubernetes 1.36: a change of replicas is scaled
// proportionally before anything else, a paused Deployment only scales, and
// otherwise the new ReplicaSet grows within the surge before the old ones shrink.

// simDeployment is a node's Deployment with its ReplicaSets.
type simDeployment struct {
	node           string
	uid, rv        int
	generation     int
	revision       string
	podsPerNode    int32
	replicas       int32
	paused         bool
	surge, unavail intstr.IntOrString
	minReady       time.Duration
	// foreign counts what somebody else changed in the template.
	foreign   int
	scaled    bool
	keptOut   bool
	mark      string
	updatedAt time.Time
	// attachedAt and drainedAt are the annotations of these names.
	attachedAt, drainedAt time.Time
	hold                  *Hold
	deleting              bool
	// resizedAt is when a ReplicaSet was last asked for another number of pods.
	resizedAt time.Time

	sets                                     []*replicaSet
	observed, updatedReplicas, olderReplicas int
	syncing                                  bool
}

type replicaSet struct {
	template, revision string
	size, desired, max int32
	turn               int
}

func (d *simDeployment) template() string { return fmt.Sprintf("%s/%d", d.revision, d.foreign) }

// goBack gives the Deployment the template of one of its ReplicaSets.
func (d *simDeployment) goBack(template string) {
	if s := d.find(template); s != nil {
		d.revision, d.foreign = s.revision, 0
		_, _ = fmt.Sscanf(strings.TrimPrefix(template, s.revision+"/"), "%d", &d.foreign)
	}
}

func (d *simDeployment) fields() string {
	return fmt.Sprint(d.surge.String(), d.unavail.String(), d.minReady)
}

// write is a change of the Deployment's spec or metadata.
func (w *world) write(d *simDeployment, spec bool) {
	if spec {
		d.generation++
	}
	d.rv = w.version()
	w.syncSoon(d)
	w.checkersChanged(d.node)
}

// syncSoon runs the two controllers for a Deployment after a moment.
func (w *world) syncSoon(d *simDeployment) {
	if d.syncing {
		return
	}
	d.syncing = true
	w.after(w.between(10*time.Millisecond, 60*time.Millisecond), func() {
		d.syncing = false
		if w.deployments[d.node] == d && !d.deleting {
			w.sync(d)
		}
	})
}

// sync is one pass of the Deployment controller.
func (w *world) sync(d *simDeployment) {
	current := d.find(d.template())
	switch {
	case d.paused || d.scalingEvent():
		w.scale(d, current)
	default:
		if current == nil {
			w.count++
			current = &replicaSet{template: d.template(), revision: d.revision, turn: w.count}
			d.sets = append(d.sets, current)
		}
		w.roll(d, current)
	}
	w.report(d, current)
}

func (d *simDeployment) find(template string) *replicaSet {
	for _, s := range d.sets {
		if s.template == template {
			return s
		}
	}
	return nil
}

// scalingEvent is whether replicas differs from what the ReplicaSets were last scaled for.
func (d *simDeployment) scalingEvent() bool {
	return slices.ContainsFunc(d.sets, func(s *replicaSet) bool { return s.size > 0 && s.desired != d.replicas })
}

func (d *simDeployment) active() []*replicaSet {
	var out []*replicaSet
	for _, s := range d.sets {
		if s.size > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (d *simDeployment) total() (n int32) {
	for _, s := range d.sets {
		n += s.size
	}
	return n
}

func (d *simDeployment) maxSurge() int32 { return scaled(d.surge, d.replicas, true) }

// maxUnavailable is never 0 where the surge is.
func (d *simDeployment) maxUnavailable() int32 {
	n := scaled(d.unavail, d.replicas, false)
	if n == 0 && d.maxSurge() == 0 {
		return min(1, d.replicas)
	}
	return min(n, d.replicas)
}

func scaled(v intstr.IntOrString, of int32, up bool) int32 {
	n, _ := intstr.GetScaledValueFromIntOrPercent(&v, int(of), up)
	return int32(n)
}

// scale is the proportional scaling of a Deployment in the middle of a rollout.
func (w *world) scale(d *simDeployment, current *replicaSet) {
	active := d.active()
	switch {
	case len(active) == 0 && len(d.sets) > 0:
		w.resize(d, slices.MaxFunc(d.sets, func(a, b *replicaSet) int { return cmp.Compare(a.turn, b.turn) }), d.replicas)
		return
	case len(active) == 0:
		return
	case len(active) == 1:
		w.resize(d, active[0], d.replicas)
		return
	case current != nil && current.size == d.replicas && current.desired == d.replicas && w.available(d, current) == d.replicas:
		for _, s := range active {
			if s != current {
				w.resize(d, s, 0)
			}
		}
		return
	}
	allowed := int32(0)
	if d.replicas > 0 {
		allowed = d.replicas + d.maxSurge()
	}
	add := allowed - d.total()
	slices.SortFunc(active, func(a, b *replicaSet) int {
		byAge := cmp.Compare(a.turn, b.turn)
		if add > 0 {
			byAge = -byAge
		}
		return cmp.Or(cmp.Compare(b.size, a.size), byAge)
	})
	sizes, added := make([]int32, len(active)), int32(0)
	for i, s := range active {
		part := d.proportion(s, add, added)
		sizes[i] = s.size + part
		added += part
	}
	sizes[0] = max(0, sizes[0]+add-added)
	for i, s := range active {
		if s.desired != d.replicas {
			w.syncSoon(d)
		}
		s.desired, s.max = d.replicas, d.replicas+d.maxSurge()
		w.resize(d, s, sizes[i])
	}
}

func (d *simDeployment) proportion(s *replicaSet, add, added int32) int32 {
	if add == 0 || add == added {
		return 0
	}
	fraction := -s.size
	if d.replicas > 0 {
		fraction = int32(math.Round(float64(s.size*(d.replicas+d.maxSurge()))/float64(s.max))) - s.size
	}
	if add > 0 {
		return min(fraction, add-added)
	}
	return max(fraction, add-added)
}

// roll is a rolling update: up first, otherwise down.
func (w *world) roll(d *simDeployment, current *replicaSet) {
	if current.size > d.replicas {
		w.resize(d, current, d.replicas)
		return
	}
	if grow := min(d.replicas+d.maxSurge()-d.total(), d.replicas-current.size); grow > 0 {
		w.resize(d, current, current.size+grow)
		return
	}
	unavailable := current.size - w.available(d, current)
	excess := d.total() - (d.replicas - d.maxUnavailable()) - unavailable
	if excess <= 0 {
		return
	}
	for _, s := range d.sets {
		if s != current {
			unhealthy := min(excess, s.size-w.available(d, s))
			w.resize(d, s, s.size-unhealthy)
			excess -= unhealthy
		}
	}
	spare := -(d.replicas - d.maxUnavailable())
	for _, s := range d.sets {
		spare += w.available(d, s)
	}
	for _, s := range d.sets {
		if s != current && spare > 0 {
			n := min(s.size, spare)
			w.resize(d, s, s.size-n)
			spare -= n
		}
	}
}

// resize asks a ReplicaSet for a number of pods.
func (w *world) resize(d *simDeployment, s *replicaSet, size int32) {
	if s.size == size {
		return
	}
	w.tell("deployment controller", "%s: %d pods of %s instead of %d", d.node, size, s.revision, s.size)
	s.size, s.desired, s.max = size, d.replicas, d.replicas+d.maxSurge()
	d.resizedAt = w.now
	w.replicate(d, s)
	w.syncSoon(d)
}

// report writes the Deployment's status.
func (w *world) report(d *simDeployment, current *replicaSet) {
	updated, older := 0, 0
	for _, s := range d.sets {
		if s == current {
			updated = len(w.podsOf(d, s))
		} else {
			older += len(w.podsOf(d, s))
		}
	}
	if d.observed != d.generation || d.updatedReplicas != updated || d.olderReplicas != older {
		d.observed, d.updatedReplicas, d.olderReplicas = d.generation, updated, older
		d.rv = w.version()
	}
	if next := w.nextAvailable(d); !next.IsZero() {
		w.at(next, func() { w.syncSoon(d) })
	}
}

func (w *world) nextAvailable(d *simDeployment) (next time.Time) {
	for _, p := range w.pods {
		if t := p.readySince.Add(d.minReady); p.owner == d.uid && p.ready && t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (w *world) available(d *simDeployment, s *replicaSet) (n int32) {
	for _, p := range w.podsOf(d, s) {
		if p.ready && !w.now.Before(p.readySince.Add(d.minReady)) {
			n++
		}
	}
	return n
}

// podsOf are the pods that a ReplicaSet counts: neither terminating nor failed.
func (w *world) podsOf(d *simDeployment, s *replicaSet) []*simPod {
	var out []*simPod
	for _, p := range w.pods {
		if p.owner == d.uid && p.template == s.template && !p.terminating && p.failed == "" {
			out = append(out, p)
		}
	}
	return out
}

// slowestReplication is how long a ReplicaSet may have been asked for another
// number of pods before any shows it.
const slowestReplication = 120 * time.Millisecond

// replicate is the ReplicaSet controller: it replaces failed pods at once, so
// that a rejecting kubelet makes about five a second of each (FACTS.md: 156 in
// 15 s from a Deployment of 2).
func (w *world) replicate(d *simDeployment, s *replicaSet) {
	w.after(w.between(30*time.Millisecond, slowestReplication), func() {
		if w.deployments[d.node] != d || d.deleting {
			return
		}
		have := w.podsOf(d, s)
		for range s.size - int32(len(have)) {
			w.createPod(d, s)
		}
		if extra := len(have) - int(s.size); extra > 0 {
			slices.SortStableFunc(have, func(a, b *simPod) int {
				return cmp.Or(order(a.running, b.running), order(a.ready, b.ready), b.created.Compare(a.created))
			})
			for _, p := range have[:extra] {
				w.deletePod(p)
			}
		}
		w.podsChanged(d.node)
	})
}
