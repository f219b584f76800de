package attaching

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespace is where all objects are that have one.
const namespace = "ns"

// world is everything around the controllers: the API server, the cluster's nodes and
// pods, the clouds, a webhook's receiver, and those who lead. Goroutines of the controllers
// meet in it.
type world struct {
	// mu guards all below. Nobody waits while holding it: virtual time would stand still.
	mu sync.Mutex

	scenario scenario
	// telling says whether log is kept of what happens.
	telling bool
	log     []string
	begun   time.Time
	counts  map[string]uint64
	api     *apiserver.Server
	user    *apiserver.Client
	// changes are the latest writes, from which a stale list is made.
	changes []change
	leaders []*leader
	// lease is who holds it.
	lease *leader
	leads int
	roles []*role
	edge  *receiver
	nodes []*node
	pods  []*pod
	made  int
	// freed are the addresses of pods of which nothing runs any more.
	freed  []string
	refuse map[string]bool
	// template is the number of the port "http" in new pods of the IngressDaemonSet.
	template int32
	// crashes and lostWrites are how likely a write ends so.
	crashes, lostWrites float64
	healed              bool
	// many says whether there are many groups that refuse.
	many bool
	// serviceMade is when the Service was last made anew.
	serviceMade time.Time
	// happened are the kinds of happenings so far.
	happened []string
	audit    *audit
	over     chan struct{}
}

// change is one write.
type change struct {
	at            time.Time
	before, after client.Object
}

// ctx is of no consequence.
var ctx = context.Background()

func newWorld(s scenario, telling bool) *world {
	w := &world{
		scenario: s, telling: telling, begun: time.Now(), counts: map[string]uint64{}, api: apiserver.New(runtime.NewScheme()), refuse: map[string]bool{},
		template: 8080, crashes: s.crashes, lostWrites: s.lostWrites, over: make(chan struct{}),
	}
	w.user = &apiserver.Client{Server: w.api}
	w.audit = newAudit(w)
	w.api.Changed = w.changed
	w.edge = &receiver{w: w, nodes: map[string]*member{}, slow: 3 * time.Second}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.build()
	return w
}

// changed is each write, with mu held.
func (w *world) changed(before, after client.Object) {
	w.changes = append(w.changes, change{time.Now(), before, after})
	if len(w.changes) > 400 {
		w.changes = slices.Delete(w.changes, 0, 200)
	}
	w.audit.changed(before, after)
	for _, l := range w.leaders {
		l.hears(before, after)
	}
	if o, ok := after.(*corev1.Node); ok && before != nil && len(o.Spec.Taints) < len(before.(*corev1.Node).Spec.Taints) {
		if n := w.node(o.Name); n != nil {
			w.after(time.Second, func() { w.schedule(n) })
		}
	}
}

// dice are thrown for one thing, such as the next write to an object. What they show
// depends on the scenario, on what they are thrown for and how often they were before, and
// not on what others throw in the same moment. mu is held.
func (w *world) dice(format string, args ...any) *rand.Rand {
	key := fmt.Sprintf(format, args...)
	w.counts[key]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return rand.New(rand.NewPCG(w.scenario.seed, h.Sum64()+w.counts[key]*0x9e3779b97f4a7c15))
}

// between is a duration, to the nanosecond, so that no two things happen in one moment.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// wait lets virtual time pass, and is false where the world ends meanwhile, or ctx.
func (w *world) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-w.over:
	}
	return false
}

// after lets something happen later, with mu held.
func (w *world) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		select {
		case <-w.over:
		default:
			do()
		}
	})
}

// time is how long the world has gone on.
func (w *world) time() time.Duration { return time.Since(w.begun) }

// say is what happens, for a person.
func (w *world) say(format string, args ...any) {
	if w.telling {
		w.log = append(w.log, fmt.Sprintf("%9.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
	}
}

// must fails where the world itself does what the API server refuses.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// node is a machine, and its Node.
type node struct {
	name, instance, zone string
	// gone says whether the Node is not there, nameless until when it has no providerID.
	gone     bool
	nameless bool
	// machines is how many there were of the name.
	machines int
}

func (w *world) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// object is the Node as it stands, nil where it is gone.
func (w *world) object(n *node) *corev1.Node {
	o, _ := w.api.Find("Node", "", n.name).(*corev1.Node)
	return o
}

// editNode lets somebody change a Node.
func (w *world) editNode(n *node, change func(*corev1.Node)) {
	if o := w.object(n); o != nil {
		o = o.DeepCopy()
		change(o)
		w.api.Put(o)
	}
}

// boot makes the Node of a machine.
func (w *world) boot(n *node) {
	o := &corev1.Node{}
	o.Name, o.Labels = n.name, map[string]string{"pool": "edge", corev1.LabelTopologyZone: n.zone}
	if !n.nameless {
		o.Spec.ProviderID = "aws:///z/" + n.instance
	}
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.gone = false
	w.api.Put(o)
	w.schedule(n)
}

// groupAttachment is a TargetGroupAttachment, nil where it is not there.
func (w *world) groupAttachment(name string) *v1alpha1.TargetGroupAttachment {
	c, _ := w.api.Find("TargetGroupAttachment", namespace, name).(*v1alpha1.TargetGroupAttachment)
	return c
}

func (w *world) groupAttachments() []*v1alpha1.TargetGroupAttachment {
	var out []*v1alpha1.TargetGroupAttachment
	for _, o := range w.api.All("TargetGroupAttachment") {
		out = append(out, o.(*v1alpha1.TargetGroupAttachment))
	}
	return out
}

func (w *world) attachment(node string) *v1alpha1.Attachment {
	a, _ := w.api.Find("Attachment", "", node).(*v1alpha1.Attachment)
	return a
}

func (w *world) attachments() []*v1alpha1.Attachment {
	var out []*v1alpha1.Attachment
	for _, o := range w.api.All("Attachment") {
		out = append(out, o.(*v1alpha1.Attachment))
	}
	return out
}

// editGroupAttachment lets a user change a spec.
func (w *world) editGroupAttachment(name string, change func(*v1alpha1.TargetGroupAttachmentSpec)) {
	if c := w.groupAttachment(name); c != nil && c.DeletionTimestamp == nil {
		c = c.DeepCopy()
		change(&c.Spec)
		must(w.user.Update(ctx, c, client.FieldOwner("kubectl")))
	}
}

// history is what happened so far, each kind once.
func (w *world) history() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(w.happened))), ", ")
}

// describe is all that matters when something is amiss.
func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  at %.1f s", time.Since(w.begun).Seconds())
	for _, c := range w.groupAttachments() {
		fmt.Fprintf(&b, "\n  group attachment %s deleted %t on %+v of %s port %s: %+v", c.Name, c.DeletionTimestamp != nil, c.Spec.TargetGroup, roleOf(c), c.Spec.Port.String(), c.Status.Groups)
		for _, k := range c.Status.Conditions {
			fmt.Fprintf(&b, "\n    %s %s %s %s", k.Type, k.Status, k.Reason, k.Message)
		}
	}
	for _, a := range w.attachments() {
		fmt.Fprintf(&b, "\n  Attachment %s of %s wanted %s done %t waits %q: %+v", a.Name, a.Spec.Instance, a.Spec.Wanted, a.Status.Done, a.Status.Waits, a.Status.Groups)
	}
	for _, n := range w.nodes {
		if o := w.object(n); o != nil {
			fmt.Fprintf(&b, "\n  node %s %s cordoned %t %v %v %v", n.name, o.Spec.ProviderID, o.Spec.Unschedulable, o.Labels, o.Annotations, o.Spec.Taints)
		}
	}
	for _, p := range w.pods {
		fmt.Fprintf(&b, "\n  pod %s", p)
	}
	for _, g := range w.groups() {
		fmt.Fprintf(&b, "\n  group %s of %s: %s", g.Name, g.role.name, g.describe())
	}
	return b.String()
}
