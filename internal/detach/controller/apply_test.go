package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster is an API server of which each write is noted, and may be refused.
type cluster struct{ *fakeapi.API }

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	return &cluster{fakeapi.New(t, objects...)}
}

func (c *cluster) reconciler() *Reconciler {
	return &Reconciler{
		Options: Options{Targets: true, Reasons: detach.AllReasons, InstanceID: func(p string) string { return strings.TrimPrefix(p, "aws:///z/") }},
		client:  c, live: c, recorder: events.NewFakeRecorder(100), stops: &stops{refusals: map[string]refusal{}},
		phases: &phases{of: map[string]detach.Phase{}, begun: map[string]time.Time{}, returning: map[string]bool{}},
		gone:   map[string]gone{}, webhooks: &webhooks{known: map[question]*known{}, open: map[addressee]bool{}, trigger: func() {}},
	}
}

func cordoned(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-" + name, Unschedulable: true}}
}

// detached is the Attachment of a cordoned node whose targets are out.
func detached(name string) *v1alpha1.Attachment {
	return &v1alpha1.Attachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 2},
		Spec:       v1alpha1.AttachmentSpec{Instance: "i-" + name, Wanted: v1alpha1.WantDetached},
		Status:     v1alpha1.AttachmentStatus{ObservedGeneration: 2, Done: true},
	}
}

// pass observes and applies once, with a cache that may lag.
func (c *cluster) pass(t *testing.T, r *Reconciler, cached ...client.Object) error {
	t.Helper()
	if len(cached) > 0 {
		lagging := newCluster(t, cached...)
		r.client = readsFrom{c, lagging}
	}
	o, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.apply(t.Context(), o, detach.Plan(o.state))
}

// readsFrom writes to one client and lists from another.
type readsFrom struct {
	client.WithWatch
	cache client.Client
}

func (r readsFrom) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.cache.List(ctx, list, opts...)
}

// unreadable is an API server that answers no question.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

// TestANodeIsMarkedBeforeAnythingIsTakenOut writes no Attachment where the mark failed.
func TestANodeIsMarkedBeforeAnythingIsTakenOut(t *testing.T) {
	c := newCluster(t, cordoned("a"))
	if err := c.pass(t, c.reconciler()); err != nil {
		t.Fatal(err)
	}
	marked, written := slices.Index(c.Writes(), "patch Node a"), slices.Index(c.Writes(), "create Attachment a")
	if marked < 0 || written < marked {
		t.Errorf("%v", c.Writes())
	}
	for _, failing := range []string{"patch Node a", "patch Node/status a"} {
		c := newCluster(t, cordoned("a"))
		c.Refuse = func(write string) error {
			if write == failing {
				return errors.New("refused")
			}
			return nil
		}
		if err := c.pass(t, c.reconciler()); err == nil || slices.Contains(c.Writes(), "create Attachment a") {
			t.Errorf("%s failed: %v, %v", failing, err, c.Writes())
		}
	}
}

// TestNoNodeIsTakenOutWithoutTheLease: who was frozen after the mark may have been replaced by another
// controller, which has taken other nodes out since.
func TestNoNodeIsTakenOutWithoutTheLease(t *testing.T) {
	c := newCluster(t, cordoned("a"))
	r := c.reconciler()
	r.Leads = func() bool { return !slices.Contains(c.Writes(), "patch Node/status a") }
	if err := c.pass(t, r); !errors.Is(err, errNotLeading) || slices.Contains(c.Writes(), "create Attachment a") {
		t.Errorf("%v, %v", err, c.Writes())
	}
}

// TestNodesAreWrittenAsTheyWereSeen names the version that was decided upon.
func TestNodesAreWrittenAsTheyWereSeen(t *testing.T) {
	c := newCluster(t, cordoned("a"))
	if err := c.pass(t, c.reconciler()); err != nil {
		t.Fatal(err)
	}
	if len(c.Patches("Node")) == 0 {
		t.Fatal("nothing was patched")
	}
	for _, body := range c.Patches("Node") {
		metadata, _ := body["metadata"].(map[string]any)
		if metadata["resourceVersion"] == nil || metadata["uid"] != "uid-a" {
			t.Errorf("%v", body)
		}
	}
	// Somebody wrote the Node since it was seen.
	c = newCluster(t, cordoned("a"))
	now := &corev1.Node{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil {
		t.Fatal(err)
	}
	seen := now.DeepCopy()
	now.Labels = map[string]string{"somebody": "writes"}
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	r := c.reconciler()
	o, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.nodes["a"] = seen
	err = r.applyNode(t.Context(), o, detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Attachment: detach.WriteDetach, Patch: &detach.Patch{Annotations: map[string]*string{"x": new("y")}}})
	if !apierrors.IsConflict(err) || slices.Contains(c.Writes(), "create Attachment a") {
		t.Errorf("%v, %v", err, c.Writes())
	}
}

// TestAReasonIsLookedUpBeforeANodeIsTakenOut does nothing to a node that somebody let go of
// and that a cache still shows otherwise, nor stops its pods.
func TestAReasonIsLookedUpBeforeANodeIsTakenOut(t *testing.T) {
	now := cordoned("a")
	now.Spec.Unschedulable = false
	c := newCluster(t, now)
	if err := c.pass(t, c.reconciler(), cordoned("a")); err != nil || len(c.Writes()) > 0 {
		t.Errorf("%v, %v", err, c.Writes())
	}
	// Another Node has its name, or it cannot be looked up.
	another := cordoned("a")
	another.UID = "another"
	for name, live := range map[string]client.Reader{"another Node": newCluster(t, another), "unreadable": unreadable{}} {
		c := newCluster(t, cordoned("a"))
		r := c.reconciler()
		r.live = live
		o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": detached("a")}}
		stop := detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Stop: []detach.Pod{{Namespace: "ns", Name: "p", UID: "1"}}}
		if err := r.applyNode(t.Context(), o, stop); (err != nil) != (name == "unreadable") || len(c.Writes()) > 0 {
			t.Errorf("%s: %v, %v", name, err, c.Writes())
		}
	}
	// It is a node of the control plane by now.
	promoted := cordoned("a")
	promoted.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	other := newCluster(t, promoted)
	if err := other.pass(t, other.reconciler(), cordoned("a")); err != nil || len(other.Writes()) > 0 {
		t.Errorf("of the control plane: %v, %v", err, other.Writes())
	}
	r := c.reconciler()
	o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": detached("a")}}
	stop := detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Stop: []detach.Pod{{Namespace: "ns", Name: "p", UID: "1"}}}
	if err := r.applyNode(t.Context(), o, stop); err != nil || len(c.Writes()) > 0 {
		t.Errorf("%v, %v", err, c.Writes())
	}
}

// TestPodsThatCannotBeReadStopNoOtherNode goes on with all else where the pods of a node that goes
// away cannot be listed, and says so.
func TestPodsThatCannotBeReadStopNoOtherNode(t *testing.T) {
	c := newCluster(t, cordoned("a"), detached("a"), cordoned("b"))
	r := c.reconciler()
	r.live = podless{c}
	if err := c.pass(t, r); err == nil || !strings.Contains(err.Error(), "listing the pods of node a") || !slices.Contains(c.Writes(), "create Attachment b") {
		t.Errorf("%v, %v", err, c.Writes())
	}
}

// podless is an API server that lists no pods.
type podless struct{ client.Reader }

func (p podless) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); pods {
		return errors.New("no answer")
	}
	return p.Reader.List(ctx, list, opts...)
}

// TestANodeThatHangsHoldsUpNoOther goes on with other nodes where the API server does not answer
// about one.
func TestANodeThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, cordoned("a"), cordoned("b"))
		r := c.reconciler()
		r.live = silentAbout{c, "a"}
		if err := c.pass(t, r); !errors.Is(err, context.DeadlineExceeded) || !slices.Contains(c.Writes(), "create Attachment b") {
			t.Errorf("%v, %v", err, c.Writes())
		}
	})
}

// silentAbout is an API server that does not answer about an object.
type silentAbout struct {
	client.Reader
	name string
}

func (s silentAbout) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if key.Name == s.name {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Reader.Get(ctx, key, o, opts...)
}

// TestOnlyThePodThatWasSeenIsStopped binds an eviction, and a deletion, to the pod's UID.
func TestOnlyThePodThatWasSeenIsStopped(t *testing.T) {
	c := newCluster(t, cordoned("a"), detached("a"))
	r := c.reconciler()
	if err := r.stop(t.Context(), detach.Pod{Namespace: "ns", Name: "p", UID: "1"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Evictions(), []types.UID{"1"}) {
		t.Errorf("%v", c.Evictions())
	}
	successor := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "2"}}
	if err := c.Create(t.Context(), successor); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(t.Context(), detach.Pod{Namespace: "ns", Name: "p", UID: "1", Delete: true}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(successor), successor); err != nil {
		t.Errorf("another pod of its name is deleted: %v", err)
	}
	// Without the lease none is stopped, and no webhook is asked.
	r.Leads = func() bool { return false }
	r.webhooks.all = []Webhook{{Name: "edge", Ask: func(context.Context, webhook.Request) (Answer, error) {
		t.Error("a webhook is asked")
		return Answer{}, nil
	}}}
	o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": detached("a")}}
	triggered := make(chan struct{}, 1)
	r.webhooks.trigger = func() { triggered <- struct{}{} }
	err := r.applyNode(t.Context(), o, detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Ask: []string{"edge"}, Stop: []detach.Pod{{Namespace: "ns", Name: "p", UID: "1"}}})
	<-triggered
	if !errors.Is(err, errNotLeading) || len(c.Evictions()) != 1 {
		t.Errorf("%v, %v", err, c.Evictions())
	}
}

// TestOnePodThatCannotBeStopped keeps no other from it, as where two disruption budgets select it.
func TestOnePodThatCannotBeStopped(t *testing.T) {
	c := newCluster(t)
	c.Refuse = func(what string) error {
		if what == "create Pod/eviction first" {
			return apierrors.NewInternalError(errors.New("more than one disruption budget"))
		}
		return nil
	}
	err := c.reconciler().stopAll(t.Context(), []detach.Pod{{Namespace: "ns", Name: "first", UID: "1"}, {Namespace: "ns", Name: "second", UID: "2"}})
	if err == nil || !strings.Contains(err.Error(), "ns/first") || len(c.Evictions()) != 1 || c.Evictions()[0] != "2" {
		t.Errorf("%v, %v", c.Evictions(), err)
	}
}

// TestTheConditionOfANode is written with the lease alone, since another leader may have put the
// node back since, and not on another Node of its name.
func TestTheConditionOfANode(t *testing.T) {
	for name, c := range map[string]struct{ leads, another, writes bool }{
		"as it was seen":      {leads: true, writes: true},
		"without the lease":   {},
		"another of its name": {leads: true, another: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newCluster(t, cordoned("a"))
			r := api.reconciler()
			r.Leads = func() bool { return c.leads }
			seen := cordoned("a")
			if c.another {
				seen.UID = "another"
			}
			err := r.patchNode(t.Context(), seen, &detach.Patch{Detaching: new(true)})
			node := &corev1.Node{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil {
				t.Fatal(err)
			}
			if wrote := len(node.Status.Conditions) > 0; wrote != c.writes || (err == nil) != c.writes {
				t.Errorf("written %t, %v", wrote, err)
			}
		})
	}
}

// TestANodeIsSaidToBeOutByTheAnswerOfNow goes by the Attachment as it stands, and by no
// answer to what was wanted before: cordon, uncordon, cordon, and a cache that shows the first.
func TestANodeIsSaidToBeOutByTheAnswerOfNow(t *testing.T) {
	older := detached("a")
	older.Status.ObservedGeneration = 1
	another := detached("a")
	another.UID = "another"
	undone := detached("a")
	undone.Status.Done = false
	later := detached("a")
	later.Generation = 3
	for name, now := range map[string]struct {
		attachment *v1alpha1.Attachment
		stamps     bool
	}{
		"as it was seen": {detached("a"), true}, "an old answer": {older, false}, "another object": {another, false}, "something else is wanted": {later, false},
		"not done any more": {undone, false},
	} {
		c := newCluster(t, cordoned("a"), now.attachment)
		seen := detached("a")
		if name == "an old answer" {
			seen = older.DeepCopy()
		}
		err := c.pass(t, c.reconciler(), cordoned("a"), seen)
		node := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, node); err != nil {
			t.Fatal(err)
		}
		if _, stamped := node.Annotations[v1alpha1.AnnotationDetachmentTimestamp]; stamped != now.stamps || now.stamps && err != nil {
			t.Errorf("%s: stamped %t, %v", name, stamped, err)
		}
		// The timestamp may be seen still that the first detachment had: no pod is stopped by that.
		o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": seen}}
		stop := detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Stop: []detach.Pod{{Namespace: "ns", Name: "p", UID: "1"}}}
		if err := c.reconciler().applyNode(t.Context(), o, stop); (err == nil) != now.stamps || len(c.Evictions()) > 0 != now.stamps {
			t.Errorf("%s: %v, stopped %v", name, err, c.Evictions())
		}
	}
}

// TestANodeIsPutBackWhenNothingAsksForIt leaves out a node that is asked for once more, and that
// a cache still shows as it was in between.
func TestANodeIsPutBackWhenNothingAsksForIt(t *testing.T) {
	released := cordoned("a")
	released.Spec.Unschedulable = false
	released.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "true"}
	released.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeBeingDetached, Status: corev1.ConditionTrue}}
	for name, now := range map[string]*corev1.Node{"as it was seen": released, "cordoned once more": cordoned("a")} {
		c := newCluster(t, now.DeepCopy(), detached("a"))
		if err := c.pass(t, c.reconciler(), released.DeepCopy(), detached("a")); err != nil {
			t.Fatal(err)
		}
		attachment := &v1alpha1.Attachment{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, attachment); err != nil {
			t.Fatal(err)
		}
		if back := attachment.Spec.Wanted == v1alpha1.WantAttached; back != (now == released) {
			t.Errorf("%s: %v", name, c.Writes())
		}
	}
}

// TestOthersStayAttachedByTheAttachmentsOfNow takes out no node beside one that another leader
// takes out, which a cache still shows as attached.
func TestOthersStayAttachedByTheAttachmentsOfNow(t *testing.T) {
	ready := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	other := ready(cordoned("b"))
	other.Spec.Unschedulable = false
	nodes := func() []client.Object { return []client.Object{ready(cordoned("a")), other.DeepCopy()} }
	for name, now := range map[string]struct {
		attachments []client.Object
		begins      bool
	}{"as it was seen": {nil, true}, "the other is taken out": {[]client.Object{detached("b")}, false}} {
		c := newCluster(t, append(nodes(), now.attachments...)...)
		r := c.reconciler()
		r.MinAttached = intstr.FromInt32(1)
		if err := c.pass(t, r, nodes()...); err != nil {
			t.Fatal(err)
		}
		if begun := slices.Contains(c.Writes(), "create Attachment a"); begun != now.begins || len(c.Writes()) > 0 != now.begins {
			t.Errorf("%s: %v", name, c.Writes())
		}
	}
}

// TestAttachmentsAreWrittenAsTheyWereSeen neither deletes nor changes one that somebody has
// written since: it may remember more than it was seen to.
func TestAttachmentsAreWrittenAsTheyWereSeen(t *testing.T) {
	for _, write := range []detach.Write{detach.Delete, detach.WriteAttach, detach.WriteDetach} {
		c := newCluster(t, cordoned("a"), detached("a"))
		now := &v1alpha1.Attachment{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil {
			t.Fatal(err)
		}
		o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": now.DeepCopy()}}
		now.Status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{"i-a:80"}}}
		if err := c.API.Status().Update(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		d := detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Attachment: write}
		if err := c.reconciler().applyNode(t.Context(), o, d); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", write, err)
		}
		after := &v1alpha1.Attachment{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, after); err != nil || after.Spec != now.Spec {
			t.Errorf("%s: %+v, %v", write, after.Spec, err)
		}
		if err := c.reconciler().recordGone(t.Context(), o.attachments["a"], time.Hour); !apierrors.IsConflict(err) {
			t.Errorf("how long it has been gone: %v", err)
		}
	}
}

// TestAWebhookIsAskedWhatIsWantedNow asks nothing by a list that shows an Attachment which
// another leader has deleted, or has let ask for something else.
func TestAWebhookIsAskedWhatIsWantedNow(t *testing.T) {
	later := detached("a")
	later.Generation = 3
	for name, now := range map[string]struct {
		objects []client.Object
		asked   bool
	}{
		"as it was seen": {[]client.Object{detached("a")}, true}, "deleted": {nil, false}, "something else is wanted": {[]client.Object{later}, false},
	} {
		c := newCluster(t, append(now.objects, cordoned("a"))...)
		asked := make(chan bool, 1)
		r := c.reconciler()
		r.webhooks.all = []Webhook{{Name: "edge", Ask: func(context.Context, webhook.Request) (Answer, error) {
			asked <- true
			return Answer{}, nil
		}}}
		o := &observed{nodes: map[string]*corev1.Node{"a": cordoned("a")}, attachments: map[string]*v1alpha1.Attachment{"a": detached("a")}}
		err := r.applyNode(t.Context(), o, detach.NodeDecision{Name: "a", Reason: detach.Cordoned, Ask: []string{"edge"}})
		if now.asked {
			<-asked
		}
		if (err == nil) != now.asked || len(asked) > 0 {
			t.Errorf("%s: %v, asked once more %t", name, err, len(asked) > 0)
		}
	}
}

// TestOneIDForADetachment tells webhooks the same of a detachment and of the attachment that
// ends it, and another of the next.
func TestOneIDForADetachment(t *testing.T) {
	node := cordoned("a")
	c := newCluster(t, node, detached("a"))
	r := c.reconciler()
	var ids []string
	for _, wanted := range []v1alpha1.AttachmentWanted{"", v1alpha1.WantAttached, v1alpha1.WantDetached, v1alpha1.WantAttached} {
		now := &v1alpha1.Attachment{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil {
			t.Fatal(err)
		}
		if wanted != "" {
			if err := r.writeAttachment(t.Context(), node, now, wanted); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil || now.Spec.Wanted != wanted {
				t.Fatalf("%+v, %v", now.Spec, err)
			}
		}
		ids = append(ids, detachmentID(now))
	}
	if ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
		t.Errorf("detached, attached, detached and attached with %q", ids)
	}
	garbled := detached("a")
	garbled.Annotations = map[string]string{v1alpha1.AnnotationDetachment: "a b"}
	if id := detachmentID(garbled); id != ids[0] {
		t.Errorf("by a number that somebody garbled %q", id)
	}
}

// TestHowLongANodeIsGoneOutlivesUs goes on from what another leader has recorded.
func TestHowLongANodeIsGoneOutlivesUs(t *testing.T) {
	a := detached("a")
	a.Annotations = map[string]string{v1alpha1.AnnotationGoneFor: "23h0m0s"}
	c := newCluster(t, a)
	r := c.reconciler()
	if err := c.pass(t, r); err != nil {
		t.Fatal(err)
	}
	r.gone["a"] = gone{time.Now().Add(-61 * time.Minute), r.gone["a"].before}
	if err := c.pass(t, r); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &v1alpha1.Attachment{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is remembered for more than a day: %v", err)
	}
	// One that has been gone for an hour says so, and no longer when it is back.
	c = newCluster(t, detached("a"))
	r = c.reconciler()
	r.gone["a"] = gone{since: time.Now().Add(-61 * time.Minute)}
	if err := c.pass(t, r); err != nil {
		t.Fatal(err)
	}
	now := &v1alpha1.Attachment{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil || !strings.HasPrefix(now.Annotations[v1alpha1.AnnotationGoneFor], "1h1m") {
		t.Errorf("%v, %v", now.Annotations, err)
	}
	if err := c.Create(t.Context(), cordoned("a")); err != nil {
		t.Fatal(err)
	}
	if err := c.pass(t, r); err != nil {
		t.Fatal(err)
	}
	now = &v1alpha1.Attachment{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, now); err != nil || now.Annotations[v1alpha1.AnnotationGoneFor] != "" {
		t.Errorf("%v, %v", now.Annotations, err)
	}
}

// TestWhatFailsDropsNoWake comes back when something is due, though a write failed.
func TestWhatFailsDropsNoWake(t *testing.T) {
	c := newCluster(t)
	r := c.reconciler()
	due := time.Now().Add(300 * time.Millisecond)
	for range 6 {
		r.report(t.Context(), &observed{}, detach.Decision{}, errors.New("refused"))
	}
	if at := r.report(t.Context(), &observed{}, detach.Decision{WakeAt: due}, errors.New("refused")); !at.Equal(due) {
		t.Errorf("it comes back at %s, and something is due at %s", at, due)
	}
}

// TestRefusedEvictionsAreTriedAgain comes back when an eviction that was refused is due again,
// since nobody tells that a disruption budget permits it by now.
func TestRefusedEvictionsAreTriedAgain(t *testing.T) {
	r := newCluster(t).reconciler()
	now := time.Now()
	r.stops.refused("a", now)
	r.stops.refused("b", now.Add(time.Minute))
	if at := r.report(t.Context(), &observed{}, detach.Decision{}, nil); !at.Equal(now.Add(firstRetry)) {
		t.Errorf("it comes back at %s, %s after the refusal", at, at.Sub(now))
	}
	r.stops.succeeded("a")
	r.stops.succeeded("b")
	if at := r.report(t.Context(), &observed{}, detach.Decision{}, nil); !at.IsZero() {
		t.Errorf("it comes back at %s for what succeeded", at)
	}
}

// TestOwnersThatAreNone: who may write pods may name any owner, and none but a DaemonSet of a name that
// one can have is read.
func TestOwnersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		owner metav1.OwnerReference
		want  bool
	}{
		"a DaemonSet":        {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}, true},
		"of another group":   {metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "DaemonSet", Name: "agent"}, false},
		"of another kind":    {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "agent"}, false},
		"a path":             {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "../../../secrets/x"}, false},
		"of no group at all": {metav1.OwnerReference{APIVersion: "a/b/c", Kind: "DaemonSet", Name: "agent"}, false},
	} {
		if got := isDaemonSet(&c.owner); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTaintsOfOthersStay where ours is put on a node, and taken off.
func TestTaintsOfOthersStay(t *testing.T) {
	theirs := corev1.Taint{Key: "dedicated", Value: "edge", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Taint{Key: v1alpha1.TaintDetaching, Effect: corev1.TaintEffectNoSchedule}
	for _, before := range [][]corev1.Taint{{theirs}, {ours, theirs}} {
		if got := tainted(before, true); !slices.Equal(got, []corev1.Taint{theirs, ours}) {
			t.Errorf("detaching: %v", got)
		}
		if got := tainted(before, false); !slices.Equal(got, []corev1.Taint{theirs}) {
			t.Errorf("attached: %v", got)
		}
	}
}
