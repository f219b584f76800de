package controller

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The fakes of the Deployment and the ReplicaSet controller follow
// pkg/controller/deployment of Kubernetes 1.36: a change of replicas is scaled
// proportionally before anything else, a paused Deployment only scales, and
// otherwise the new ReplicaSet grows within the surge before the old ones shrink.

// simDeployment is a node's Deployment with its ReplicaSets.
type simDeployment struct {
	node string
	// api is the Deployment as it stands in the API server, hash that of its template.
	api  *appsv1.Deployment
	hash string
	// markedAt is since when it carries a mark, attachedAt when it was last said to have none any
	// more, by whatever clock, releasedAt that but where somebody took the record of it.
	markedAt, attachedAt, releasedAt time.Time
	// unrecorded says whether somebody took the record of the key that its mark is under.
	unrecorded bool
	// resumes says whether it was made in the middle of the update of one that was deleted.
	resumes bool
	// orphaning says whether it goes without its pods.
	orphaning bool

	sets    []*replicaSet
	syncing bool
}

type replicaSet struct {
	template           corev1.PodTemplateSpec
	hash               string
	size, desired, max int32
	turn               int
	// shrunkAt is when it was last asked for fewer pods.
	shrunkAt time.Time
	// replicating says whether its controller is about to look at it.
	replicating bool
}

// labels are those of the pods.
func (s *replicaSet) labels() map[string]string {
	return merged(s.template.Labels, map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: s.name()})
}

// name is by which the Deployment controller tells its pods from those of others.
func (s *replicaSet) name() string { return "set" + strconv.Itoa(s.turn) }

// putReplicaSet stores the object of a ReplicaSet, which the controller reads where pods
// are rejected.
func (w *world) putReplicaSet(d *simDeployment, s *replicaSet) {
	template := *s.template.DeepCopy()
	template.Labels = s.labels()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.api.Namespace, Name: d.api.Name + "-" + s.name()}, Spec: appsv1.ReplicaSetSpec{Replicas: new(s.size), Template: template}}
	set.Annotations = map[string]string{annotationMaxReplicas: strconv.Itoa(int(s.max))}
	if w.left[d.node] != d {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d.api, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	w.api.Put(set)
}

func (s *replicaSet) revision() string { return s.template.Labels[v1alpha1.LabelRevision] }

func (d *simDeployment) replicas() int32      { return *d.api.Spec.Replicas }
func (d *simDeployment) revision() string     { return d.api.Spec.Template.Labels[v1alpha1.LabelRevision] }
func (d *simDeployment) mark() (string, bool) { return markOf(d.api) }
func (d *simDeployment) marked() bool         { _, ok := markOf(d.api); return ok }
func (d *simDeployment) updatedAt() time.Time {
	return v1alpha1.Moment(d.api.Annotations, v1alpha1.AnnotationUpdatedAt)
}
func (d *simDeployment) drained() bool {
	_, ok := d.api.Annotations[v1alpha1.AnnotationDrainedAt]
	return ok
}
func (d *simDeployment) keptOut() bool {
	_, ok := d.api.Annotations[v1alpha1.AnnotationDetached]
	return ok
}

// held reports whether it remembers a hold. What somebody garbled says nothing.
func (d *simDeployment) held() bool {
	hold := &v1alpha1.Hold{}
	return json.Unmarshal([]byte(d.api.Annotations[v1alpha1.AnnotationHold]), hold) == nil && hold.Revision != ""
}

func (d *simDeployment) minReady() time.Duration {
	return time.Duration(d.api.Spec.MinReadySeconds) * time.Second
}

// podsPerNode is how many pods make the node serve, as health checkers read it.
func (d *simDeployment) podsPerNode() int32 {
	if n, err := strconv.ParseInt(d.api.Annotations[v1alpha1.AnnotationPodsPerNode], 10, 32); err == nil && n >= 0 {
		return int32(n)
	}
	return d.replicas()
}

// deploymentChanged follows what is written to a Deployment.
func (w *world) deploymentChanged(api *appsv1.Deployment, gone bool) {
	name := api.Annotations[v1alpha1.AnnotationNode]
	d := w.deployments[name]
	switch {
	case name == "" || d != nil && d.api.UID != api.UID:
		return
	case gone:
		if d != nil {
			delete(w.deployments, name)
			if d.orphaning {
				w.left[name] = d
				for _, s := range d.sets {
					w.putReplicaSet(d, s)
					w.replicate(d, s)
				}
			} else {
				w.after(w.between(50*time.Millisecond, time.Second), func() { w.collect(d) })
			}
			w.checkersChanged(name)
		}
		return
	case d == nil:
		d = &simDeployment{node: name}
		w.deployments[name] = d
		defer w.adopt(d)
	}
	if api.DeletionTimestamp != nil && d.api != nil && d.api.DeletionTimestamp == nil {
		w.removeFinalizers(d)
	}
	moved := d.api == nil || d.api.Generation != api.Generation
	if d.api == nil || moved && !sameTemplate(&d.api.Spec.Template, &api.Spec.Template) {
		d.hash = hashOf(&api.Spec.Template)
	}
	unmarked := false
	if _, marked := markOf(api); !marked {
		unmarked, d.markedAt = !d.markedAt.IsZero(), time.Time{}
	} else if d.markedAt.IsZero() {
		d.markedAt = w.now
	}
	if at := api.Annotations[v1alpha1.AnnotationAttachedAt]; at != "" && (d.api == nil || d.api.Annotations[v1alpha1.AnnotationAttachedAt] != at) {
		d.attachedAt = w.now
		if unmarked || d.api == nil {
			// Otherwise somebody has rewritten it.
			d.releasedAt = w.now
		}
	} else if at == "" {
		d.releasedAt = time.Time{}
	}
	d.api = api
	if moved {
		w.syncSoon(d)
		w.checkersChanged(name)
	}
}

func sameTemplate(a, b *corev1.PodTemplateSpec) bool { return hashOf(a) == hashOf(b) }

func hashOf(t *corev1.PodTemplateSpec) string {
	data, _ := json.Marshal(t)
	return string(data)
}

// adopt gives a Deployment the ReplicaSets and pods that one of its name has left behind.
func (w *world) adopt(d *simDeployment) {
	left := w.left[d.node]
	if left == nil {
		return
	}
	delete(w.left, d.node)
	d.sets, d.resumes = left.sets, len(left.active()) > 1
	for _, p := range w.pods {
		if p.owner == left {
			p.owner = d
		}
	}
	for _, s := range d.sets {
		w.putReplicaSet(d, s)
		s.replicating = false
		w.replicate(d, s)
	}
}

// collect is the garbage collector.
func (w *world) collect(d *simDeployment) {
	for _, p := range slices.Clone(w.pods) {
		if p.owner == d {
			w.deletePod(p, "the garbage collector")
		}
	}
	for _, s := range d.sets {
		w.api.Remove("ReplicaSet", d.api.Namespace, d.api.Name+"-"+s.name())
	}
}

// syncSoon runs the two controllers for a Deployment after a moment.
func (w *world) syncSoon(d *simDeployment) {
	if d.syncing {
		return
	}
	d.syncing = true
	w.after(w.between(10*time.Millisecond, 60*time.Millisecond), func() {
		d.syncing = false
		if w.deployments[d.node] == d && d.api.DeletionTimestamp == nil {
			w.sync(d)
		}
	})
}

// sync is one pass of the Deployment controller.
func (w *world) sync(d *simDeployment) {
	current := d.find(d.hash)
	switch {
	case d.api.Spec.Paused || d.scalingEvent():
		w.scale(d, current)
	default:
		if current == nil {
			w.count++
			current = &replicaSet{template: d.api.Spec.Template, hash: d.hash, turn: w.count}
			d.sets = append(d.sets, current)
			w.putReplicaSet(d, current)
		}
		w.roll(d, current)
	}
	w.report(d, current)
}

func (d *simDeployment) find(hash string) *replicaSet {
	for _, s := range d.sets {
		if s.hash == hash {
			return s
		}
	}
	return nil
}

// scalingEvent reports whether replicas differs from what the ReplicaSets were last scaled for.
func (d *simDeployment) scalingEvent() bool {
	return slices.ContainsFunc(d.sets, func(s *replicaSet) bool { return s.size > 0 && s.desired != d.replicas() })
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

func (d *simDeployment) maxSurge() int32 { return scaled(d.rolling().MaxSurge, d.replicas(), true) }

// maxUnavailable is never 0 where the surge is.
func (d *simDeployment) maxUnavailable() int32 {
	n := scaled(d.rolling().MaxUnavailable, d.replicas(), false)
	if n == 0 && d.maxSurge() == 0 {
		return min(1, d.replicas())
	}
	return min(n, d.replicas())
}

// rolling is how pods are replaced.
func (d *simDeployment) rolling() *appsv1.RollingUpdateDeployment {
	if r := d.api.Spec.Strategy.RollingUpdate; r != nil {
		return r
	}
	return &appsv1.RollingUpdateDeployment{}
}

func scaled(v *intstr.IntOrString, of int32, up bool) int32 {
	if v == nil {
		return 0
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(v, int(of), up)
	return int32(n)
}

// scale is the proportional scaling of a Deployment in the middle of a rollout.
func (w *world) scale(d *simDeployment, current *replicaSet) {
	active := d.active()
	switch {
	case len(active) == 0 && len(d.sets) > 0:
		w.resize(d, slices.MaxFunc(d.sets, func(a, b *replicaSet) int { return cmp.Compare(a.turn, b.turn) }), d.replicas())
		return
	case len(active) == 0:
		return
	case len(active) == 1:
		w.resize(d, active[0], d.replicas())
		return
	case current != nil && current.size == d.replicas() && current.desired == d.replicas() && w.available(d, current) == d.replicas():
		for _, s := range active {
			if s != current {
				w.resize(d, s, 0)
			}
		}
		return
	}
	allowed := int32(0)
	if d.replicas() > 0 {
		allowed = d.replicas() + d.maxSurge()
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
		if s.desired != d.replicas() {
			w.syncSoon(d)
		}
		s.sizedFor(d)
		w.putReplicaSet(d, s)
		w.resize(d, s, sizes[i])
	}
}

func (d *simDeployment) proportion(s *replicaSet, add, added int32) int32 {
	if add == 0 || add == added {
		return 0
	}
	fraction := -s.size
	if d.replicas() > 0 {
		fraction = int32(math.Round(float64(s.size*(d.replicas()+d.maxSurge()))/float64(s.max))) - s.size
	}
	if add > 0 {
		return min(fraction, add-added)
	}
	return max(fraction, add-added)
}

// roll is a rolling update: up first, otherwise down.
func (w *world) roll(d *simDeployment, current *replicaSet) {
	if current.size > d.replicas() {
		w.resize(d, current, d.replicas())
		return
	}
	if grow := min(d.replicas()+d.maxSurge()-d.total(), d.replicas()-current.size); grow > 0 {
		w.resize(d, current, current.size+grow)
		return
	}
	unavailable := current.size - w.available(d, current)
	excess := d.total() - (d.replicas() - d.maxUnavailable()) - unavailable
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
	spare := -(d.replicas() - d.maxUnavailable())
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

// sizedFor keeps what the Deployment controller counts from when it scales in proportion.
func (s *replicaSet) sizedFor(d *simDeployment) {
	s.desired, s.max = d.replicas(), d.replicas()+d.maxSurge()
}

// resize asks a ReplicaSet for a number of pods.
func (w *world) resize(d *simDeployment, s *replicaSet, size int32) {
	if s.size == size {
		return
	}
	w.tell("deployment controller", "%s: %d pods of %s instead of %d", d.node, size, s.revision(), s.size)
	if size < s.size {
		s.shrunkAt = w.now
	}
	s.size = size
	s.sizedFor(d)
	w.putReplicaSet(d, s)
	w.replicate(d, s)
	w.syncSoon(d)
}

// report writes the Deployment's status.
func (w *world) report(d *simDeployment, current *replicaSet) {
	status := d.api.Status
	status.ObservedGeneration, status.Replicas, status.UpdatedReplicas, status.ReadyReplicas = d.api.Generation, 0, 0, 0
	for _, s := range d.sets {
		for _, p := range w.podsOf(d, s) {
			status.Replicas++
			if p.ready && !p.notReadyByNode {
				status.ReadyReplicas++
			}
		}
	}
	if current != nil {
		status.UpdatedReplicas = int32(len(w.podsOf(d, current)))
	}
	if !equality.Semantic.DeepEqual(d.api.Status, status) {
		next := *d.api
		next.ObjectMeta = *d.api.ObjectMeta.DeepCopy()
		next.Status = status
		w.api.Put(&next)
	}
	if next := w.nextAvailable(d); !next.IsZero() {
		w.at(next, func() { w.syncSoon(d) })
	}
}

func (w *world) nextAvailable(d *simDeployment) (next time.Time) {
	for _, p := range w.pods {
		if t := p.readySince.Add(d.minReady()); p.owner == d && p.ready && t.After(w.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (w *world) available(d *simDeployment, s *replicaSet) (n int32) {
	for _, p := range w.podsOf(d, s) {
		if p.ready && !w.now.Before(p.readySince.Add(d.minReady())) {
			n++
		}
	}
	return n
}

// podsOf are the pods that a ReplicaSet counts: neither terminating nor failed.
func (w *world) podsOf(d *simDeployment, s *replicaSet) []*simPod {
	var out []*simPod
	for _, p := range w.pods {
		if p.owner == d && p.set == s && !p.terminating && p.failed == "" {
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
	if s.replicating {
		return
	}
	s.replicating = true
	w.after(w.between(30*time.Millisecond, slowestReplication), func() {
		s.replicating = false
		owned := w.deployments[d.node] == d && (d.api.DeletionTimestamp == nil || d.orphaning)
		if !owned && w.left[d.node] != d {
			return
		}
		have := w.podsOf(d, s)
		for range s.size - int32(len(have)) {
			w.createPod(d, s)
		}
		if extra := len(have) - int(s.size); extra > 0 {
			slices.SortStableFunc(have, func(a, b *simPod) int {
				return cmp.Or(falseFirst(a.running, b.running), falseFirst(a.ready, b.ready), b.created.Compare(a.created))
			})
			for _, p := range have[:extra] {
				w.deletePod(p, "its ReplicaSet")
			}
		}
		w.podsChanged(d.node)
	})
}
