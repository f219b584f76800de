package controller

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The simulated world: an API server in memory, the controller itself, and fakes of
// everybody else who reads and writes the objects there. Time is virtual and jumps
// from event to event; all happens in one thread. Where a fake imitates something that
// was measured on real machines, its comment says so.

// start is when every world begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is all there is.
type world struct {
	now   time.Time
	queue moments
	count int
	rng   *rand.Rand

	api *apiserver.Server
	// revised is the revision of the template with a generation of the spec.
	revised struct {
		generation int64
		revision   string
	}
	// writer is who writes to the API server at the moment, nil for others than leaders.
	writer *leader

	nodes       map[string]*simNode
	addresses   map[string]*simNode
	deployments map[string]*simDeployment
	pods        []*simPod
	daemonSets  map[int32]*simDaemonSet

	// refused are the templates that the API server refuses, bad those whose pods never
	// become ready, misbehaves those whose measurements fail: by image.
	refused, bad, misbehaves map[string]bool
	// healed is when every fault ended that does not lie in the spec.
	healed time.Time
	// everBad are the templates that were bad or misbehaved once, tight says whether a kubelet
	// ever had no room.
	everBad map[string]bool
	tight   bool
	// rejections counts the pods of each node that were rejected.
	rejections map[string]int
	// asked is until when the load balancer asks ports that were removed from the spec.
	asked map[int32]time.Time
	// released are those of them that are to be closed all the same.
	released map[int32]bool
	// wanted is when ports were put into the spec, of those that were not there at first.
	wanted map[int32]time.Time
	// detacher is how the detacher behaves.
	detacher simDetacher
	// left are Deployments that were deleted without their pods, by node.
	left map[string]*simDeployment
	// movedAt is when a node last left the node set, was called NotReady, or went.
	movedAt time.Time
	// orphans says whether the object is deleted, and what it owns is left.
	orphans bool
	// collected says whether the garbage collector has deleted what the object owns.
	collected bool
	// proxied says whether kube-proxy answers health checks for the Service.
	proxied bool
	// selector is what the labels of nodes must match to be in the node set.
	selector map[string]string
	// quick is how likely a pod has stopped a moment after somebody asked for its end.
	quick float64
	// checkersLag is how much later than usual health checkers see what changed.
	checkersLag time.Duration
	// image is the health checker's, of the controller's version.
	image string

	leaders []*leader
	// apart is how far the clock of a controller may be from the API server's, and from that of
	// the controller before, kubeletsApart that of a kubelet.
	apart, kubeletsApart time.Duration
	// crashes and freezes are the probabilities of a crash and of a freeze before each
	// write.
	crashes, freezes float64
	// hung is after how long the API server refuses what a leader writes, zero where it does not.
	hung  time.Duration
	audit *audit
	// forbids says whether the operator permits no annotations but node-detacher's.
	forbids bool
	// story receives what happens, in words.
	story func(actor, what string)
	// words are revisions in words.
	words map[string]string
}

var simScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}()

func newWorld(seed int64) *world {
	w := &world{
		now: start, nodes: map[string]*simNode{}, addresses: map[string]*simNode{}, deployments: map[string]*simDeployment{}, left: map[string]*simDeployment{},
		daemonSets: map[int32]*simDaemonSet{}, refused: map[string]bool{}, bad: map[string]bool{},
		misbehaves: map[string]bool{}, everBad: map[string]bool{}, rejections: map[string]int{}, asked: map[int32]time.Time{}, released: map[int32]bool{}, wanted: map[int32]time.Time{}, words: map[string]string{}, image: "healthchecker:1",
		detacher: simDetacher{answers: true, keys: map[string]string{}}, story: func(string, string) {},
	}
	if seed != 0 {
		w.rng = rand.New(rand.NewSource(seed))
	}
	w.audit = newAudit(w)
	w.api = apiserver.New(simScheme)
	w.api.Now, w.api.Changed, w.api.Admit = func() time.Time { return w.now }, w.changed, w.admit
	w.api.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: theSet.Namespace}})
	return w
}

// begin creates the IngressDaemonSet, with a controller that works for it.
func (w *world) begin(spec v1alpha1.IngressDaemonSetSpec) {
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: theSet.Name}, Spec: spec}
	set.Spec.NodeSelector, set.Spec.Template = map[string]string{nodeLabel: "true"}, templateOf("r1")
	w.selector = set.Spec.NodeSelector
	w.name(set)
	w.must(w.user("kubectl").Create(ctx, set, client.FieldOwner("kubectl")))
	w.lead(w.nextClock(0))
}

func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: image}}},
	}
}

// name remembers what a template is called in stories.
func (w *world) name(set *v1alpha1.IngressDaemonSet) {
	w.words[objects.Revision(objects.Template(set))] = set.Spec.Template.Spec.Containers[0].Image
}

// set is the IngressDaemonSet as it is, nil when it is gone.
func (w *world) set() *v1alpha1.IngressDaemonSet {
	set, _ := w.api.Find("IngressDaemonSet", theSet.Namespace, theSet.Name).(*v1alpha1.IngressDaemonSet)
	return set
}

// spec is its spec, an empty one when it is gone.
func (w *world) spec() *v1alpha1.IngressDaemonSetSpec {
	if set := w.set(); set != nil {
		return &set.Spec
	}
	return &v1alpha1.IngressDaemonSetSpec{}
}

// revision is that of the present template.
func (w *world) revision() string {
	set := w.set()
	if set == nil {
		return ""
	}
	if w.revised.generation != set.Generation {
		w.revised.generation, w.revised.revision = set.Generation, objects.Revision(objects.Template(set))
	}
	return w.revised.revision
}

// user is somebody who writes to the API server.
func (w *world) user(string) *apiserver.Client { return &apiserver.Client{Server: w.api} }

// must is for writes that cannot fail.
func (w *world) must(err error) {
	if err != nil {
		w.audit.fault("the simulation is wrong: %v", err)
	}
}

// admit is what webhooks and policies say.
func (w *world) admit(obj client.Object) error {
	if d, ok := obj.(*appsv1.Deployment); ok && w.writer != nil && w.refused[imageOf(d.Spec.Template)] {
		return errRefused
	}
	return nil
}

func imageOf(t corev1.PodTemplateSpec) string {
	if len(t.Spec.Containers) == 0 {
		return ""
	}
	return t.Spec.Containers[0].Image
}

// changed lets everybody see a write: first the audit, before anything comes of it.
func (w *world) changed(before, after client.Object) {
	if w.writer != nil {
		w.writer.wrote(before, after)
	}
	obj := after
	if obj == nil {
		obj = before
	}
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		w.deploymentChanged(obj, after == nil)
	case *appsv1.DaemonSet:
		w.daemonSetChanged(obj, after == nil)
	case *corev1.Pod:
		if after == nil {
			w.podGone(obj)
		}
	case *corev1.Node:
		if after != nil {
			w.nodeChanged(before, obj)
		}
	case *discoveryv1.EndpointSlice:
		w.endpointsChanged(obj)
	case *v1alpha1.IngressDaemonSet:
		w.setChanged(before, after)
	}
	for _, l := range w.leaders {
		l.hears(before, after)
	}
}

// moment is something that will happen.
type moment struct {
	at   time.Time
	turn int
	do   func()
}

// moments is a heap, ordered by time and then by turn.
type moments []moment

func (e moments) Len() int { return len(e) }
func (e moments) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].turn < e[j].turn
	}
	return e[i].at.Before(e[j].at)
}
func (e moments) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *moments) Push(x any)   { *e = append(*e, x.(moment)) }
func (e *moments) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after lets something happen later.
func (w *world) after(d time.Duration, do func()) { w.at(w.now.Add(d), do) }

func (w *world) at(t time.Time, do func()) {
	w.count++
	if t.Before(w.now) {
		t = w.now
	}
	heap.Push(&w.queue, moment{t, w.count, do})
}

// run lets time pass.
func (w *world) run(until time.Time) {
	for len(w.queue) > 0 && !w.queue[0].at.After(until) && len(w.audit.faults) == 0 {
		e := heap.Pop(&w.queue).(moment)
		if e.at.After(w.now) {
			w.now = e.at
		}
		e.do()
	}
	if until.After(w.now) {
		w.now = until
	}
}

// between is a random duration, or without randomness the shorter one.
func (w *world) between(a, b time.Duration) time.Duration {
	if w.rng == nil || b <= a {
		return a
	}
	return (a + time.Duration(w.rng.Int63n(int64(b-a)+1))).Truncate(time.Millisecond)
}

// chance is true with probability p, and never without randomness.
func (w *world) chance(p float64) bool { return w.rng != nil && p > 0 && w.rng.Float64() < p }

func (w *world) tell(actor, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	for hash, word := range w.words {
		what = strings.ReplaceAll(what, hash, word)
	}
	w.story(actor, what)
}

// order are the nodes' names in order.
func (w *world) order() []string {
	names := make([]string, 0, len(w.nodes))
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

// change edits the spec.
func (w *world) change(edit func(*v1alpha1.IngressDaemonSetSpec)) {
	set := w.set()
	if set == nil {
		return
	}
	set = set.DeepCopy()
	edit(&set.Spec)
	w.name(set)
	w.asks(w.spec().HealthCheckNodePorts, set.Spec.HealthCheckNodePorts)
	w.must(w.user("kubectl").Update(ctx, set, client.FieldOwner("kubectl")))
	if !maps.Equal(w.selector, set.Spec.NodeSelector) {
		w.selector, w.movedAt = set.Spec.NodeSelector, w.now
	}
}

// asks has the load balancer follow a change of the ports, a while later.
func (w *world) asks(before, after []int32) {
	for _, port := range after {
		delete(w.asked, port)
		delete(w.released, port)
		if !slices.Contains(before, port) {
			w.wanted[port] = w.now
		}
	}
	for _, port := range before {
		if !slices.Contains(after, port) {
			w.asked[port] = w.now.Add(w.between(time.Minute, 10*time.Minute))
			w.at(w.asked[port].Add(5*time.Minute+time.Second), func() {
				for _, name := range w.order() {
					if c := w.nodes[name].checks[port]; c != nil {
						w.answerAll(c)
					}
				}
			})
		}
	}
}

// heeded are those of a node that answer what the load balancer goes by: on the ports of a
// spec, and on those that were removed from it and that it asks all the same, unless somebody
// said to close them.
func (w *world) heeded(n *simNode, spec *v1alpha1.IngressDaemonSetSpec) (out []*simCheck) {
	for _, c := range n.checkers() {
		asked := w.now.Before(w.asked[c.port]) && !w.released[c.port]
		if asked || slices.Contains(spec.HealthCheckNodePorts, c.port) {
			out = append(out, c)
		}
	}
	return out
}

// release has the ports that were removed from the spec closed whoever asks them.
func (w *world) release() {
	set := w.set()
	if set == nil || len(w.asked) == 0 {
		return
	}
	set = set.DeepCopy()
	var released []string
	for _, port := range slices.Sorted(maps.Keys(w.asked)) {
		w.released[port] = true
		released = append(released, fmt.Sprint(port))
	}
	annotate(set, v1alpha1.AnnotationReleasedPorts, strings.Join(released, ","))
	w.must(w.user("kubectl").Update(ctx, set, client.FieldOwner("kubectl")))
}

// changeTemplate gives the set a new revision.
func (w *world) changeTemplate(image string) {
	w.change(func(s *v1alpha1.IngressDaemonSetSpec) { s.Template.Spec.Containers[0].Image = image })
}

// annotate sets or, where the value is empty, removes an annotation of the object.
func annotate(obj client.Object, key, value string) {
	annotations := map[string]string{}
	for k, v := range obj.GetAnnotations() {
		annotations[k] = v
	}
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
}
