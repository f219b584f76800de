package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// statusOfOne is the write of a status, as the API server in these tests names it.
const statusOfOne = "update TargetGroupAttachment/status one"

const webGate = "target-health.ingressdaemonsets.mumoshu.github.io/web"

// reconcilerOf has an account of ourselves that makes no calls.
func reconcilerOf(t *testing.T, api client.Client) *Reconciler {
	a := accountOf(&fakeCloud{}, func() {})
	a.running, a.stop = context.WithCancel(t.Context())
	return &Reconciler{
		Options: Options{
			SettleTime: targets.DefaultSettleTime, GroupsEvery: time.Hour, Rate: 4, Burst: 20,
			Outcome: func(error) targets.Outcome { return targets.Failed },
		},
		client: api, recorder: events.NewFakeRecorder(100), trigger: func() {}, running: t.Context(),
		writes: newWrites(func() {}), connections: newConnections(func() {}),
		accounts: map[v1alpha1.AssumeRole]*account{{}: a}, background: a.background,
		bindings: &listing[targets.Binding]{read: true, at: time.Now(), trigger: func() {}}, caches: newCaches(api, api, func() {}), answers: newAnswers(),
	}
}

func named(name string, finalizers ...string) *v1alpha1.TargetGroupAttachment {
	a := &v1alpha1.TargetGroupAttachment{}
	a.Namespace, a.Name, a.UID, a.Finalizers = "ns", name, types.UID(name), finalizers
	return a
}

// decided has each object get a status, and one target registered for each, in one group.
func decided(at time.Time, objects ...*v1alpha1.TargetGroupAttachment) targets.Decision {
	g := targets.GroupPlan{ID: "arn:web", GroupDecision: targets.GroupDecision{At: at}, Needs: map[targets.Target][]targets.Ref{}}
	d := targets.Decision{Accounts: []targets.AccountPlan{{}}}
	for _, o := range objects {
		target := targets.Target{ID: "i-" + o.Name, Port: 80}
		status := *o.Status.DeepCopy()
		status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{target.String()}}}
		d.Attachments = append(d.Attachments, targets.AttachmentDecision{Object: o, Status: status, AddFinalizer: len(o.Finalizers) == 0})
		g.Register = append(g.Register, targets.Registration{Target: target})
		g.Reports = append(g.Reports, targets.Report{Target: target})
		g.Needs[target] = []targets.Ref{(&targets.GroupAttachment{Object: o}).Ref()}
	}
	d.Groups = []targets.GroupPlan{g}
	return d
}

// queued are the targets that are to be registered now.
func (r *Reconciler) queued() []string {
	var out []string
	for {
		call, ready, _ := r.accounts[v1alpha1.AssumeRole{}].calls.Next(time.Now())
		if !ready {
			return out
		}
		for _, t := range call.Targets {
			out = append(out, t.ID)
		}
	}
}

// stored are the objects as the API server has them.
func stored(t *testing.T, api client.Client, objects ...*v1alpha1.TargetGroupAttachment) []*v1alpha1.TargetGroupAttachment {
	t.Helper()
	for i := range objects {
		o := &v1alpha1.TargetGroupAttachment{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(objects[i]), o); err != nil {
			t.Fatal(err)
		}
		objects[i] = o
	}
	return objects
}

// TestCallsFollowRecords makes no call about a target whose record could not be written, is
// being written, or was written over by somebody, and those about all others; none whose
// finalizer is not there; and what failed is not tried again at once.
func TestCallsFollowRecords(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "one", errors.New("changed"))
	for name, c := range map[string]struct {
		refuse func(what string) error
		bare   bool
		queued string
	}{
		"all is written":   {func(string) error { return nil }, false, "i-one,i-two"},
		"one is refused":   {func(what string) error { return failFor(what, statusOfOne, errors.New("too large")) }, false, "i-two"},
		"one conflicts":    {func(what string) error { return failFor(what, statusOfOne, conflict) }, false, "i-two"},
		"no finalizer yet": {func(string) error { return nil }, true, "i-two"},
	} {
		api := fakeapi.New(t, named("one", v1alpha1.Finalizer), named("two", v1alpha1.Finalizer))
		api.Refuse = c.refuse
		objects := stored(t, api, named("one"), named("two"))
		if c.bare {
			objects[0].Finalizers = nil
		}
		r := reconcilerOf(t, api)
		d := decided(time.Now(), objects...)
		o := &observed{state: targets.State{Now: time.Now()}}
		done := r.apply(t.Context(), o, d)
		if got := strings.Join(r.queued(), ","); got != c.queued {
			t.Errorf("%s: %s", name, got)
		}
		again := r.report(t.Context(), o, d, done)
		before := len(api.Writes())
		r.apply(t.Context(), o, d)
		retried := slices.Contains(api.Writes()[before:], statusOfOne)
		switch name {
		case "one is refused":
			if retried || time.Until(again) > firstRetry {
				t.Errorf("%s: tried again %t, or in %s", name, retried, time.Until(again))
			}
		case "one conflicts":
			if !retried || time.Until(again) > conflictPause {
				t.Errorf("%s: tried again %t, or in %s", name, retried, time.Until(again))
			}
		case "no finalizer yet":
			if slices.Contains(api.Writes()[:before], statusOfOne) || !slices.Contains(api.Writes(), "update TargetGroupAttachment one") {
				t.Errorf("%s: %v", name, api.Writes())
			}
		}
	}
}

func failFor(what, failing string, err error) error {
	if what == failing {
		return err
	}
	return nil
}

// TestAHoldThatIsNotWrittenStopsItsCalls: without the Attachment's record nobody would know
// what to put back; nor where it was deleted meanwhile.
func TestAHoldThatIsNotWrittenStopsItsCalls(t *testing.T) {
	gone := apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("attachments").GroupResource(), "node-a")
	for name, err := range map[string]error{"refused": errors.New("refused"), "gone": gone} {
		a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1"}}
		api := fakeapi.New(t, a.DeepCopy())
		api.Refuse = func(what string) error { return failFor(what, "update Attachment/status node-a", err) }
		r := reconcilerOf(t, api)
		d := decided(time.Now())
		target := targets.Target{ID: "i-a", Port: 80}
		d.NodeAttachments = []targets.NodeAttachmentDecision{{Object: a, Status: v1alpha1.AttachmentStatus{Waits: "x"}}}
		d.Groups[0].Register, d.Groups[0].Needs[target] = []targets.Registration{{Target: target}}, []targets.Ref{targets.RefOf(a)}
		r.apply(t.Context(), &observed{}, d)
		if got := r.queued(); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAHookThatIsNotWrittenStopsItsCalls: the pod would not be held while it gets traffic,
// whoever registers it.
func TestAHookThatIsNotWrittenStopsItsCalls(t *testing.T) {
	for name, err := range map[string]error{"refused": errors.New("refused"), "": nil} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		api := fakeapi.New(t, pod.DeepCopy())
		api.Refuse = func(what string) error { return failFor(what, "patch Pod p", err) }
		r := reconcilerOf(t, api)
		d := decided(time.Now())
		target := targets.Target{ID: "10.0.0.1", Port: 80}
		d.Hooks = []targets.HookWrite{{Pod: pod, In: true}}
		d.Groups[0].Register = []targets.Registration{{Target: target}}
		d.Groups[0].Needs[target] = []targets.Ref{{Kind: targets.KindPod, Namespace: "ns", Name: "p"}}
		r.apply(t.Context(), &observed{}, d)
		if got := r.queued(); (len(got) > 0) != (err == nil) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAHookIsNotToldWithoutTheLease: another controller may have registered its pod by now, or taken
// it out.
func TestAHookIsNotToldWithoutTheLease(t *testing.T) {
	for _, in := range []bool{false, true} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		api := fakeapi.New(t, pod.DeepCopy())
		for _, leads := range []bool{false, true} {
			r := reconcilerOf(t, api)
			r.Leads = func() bool { return leads }
			d := decided(time.Now())
			d.Hooks = []targets.HookWrite{{Pod: pod, In: in}}
			r.apply(t.Context(), &observed{}, d)
			if wrote := slices.Contains(api.Writes(), "patch Pod p"); wrote != leads {
				t.Errorf("in %t, leads %t: written %t", in, leads, wrote)
			}
		}
	}
}

// TestStatusesAreWrittenWithTheLease: another leader may have recorded elsewhere what is left out.
func TestStatusesAreWrittenWithTheLease(t *testing.T) {
	for _, leads := range []bool{true, false} {
		a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1"}}
		api := fakeapi.New(t, a.DeepCopy(), named("one", v1alpha1.Finalizer))
		r := reconcilerOf(t, api)
		r.Leads = func() bool { return leads }
		d := decided(time.Now(), stored(t, api, named("one"))...)
		d.NodeAttachments = []targets.NodeAttachmentDecision{{Object: a, Status: v1alpha1.AttachmentStatus{Waits: "x"}}}
		r.apply(t.Context(), &observed{}, d)
		for _, write := range []string{statusOfOne, "update Attachment/status node-a"} {
			if slices.Contains(api.Writes(), write) != leads {
				t.Errorf("leads %t: %s is not as it should be in %v", leads, write, api.Writes())
			}
		}
	}
}

// TestAHookIsLetGoAsItWasSeen: who has written on the pod since may have told it that traffic comes.
func TestAHookIsLetGoAsItWasSeen(t *testing.T) {
	for _, in := range []bool{false, true} {
		api := fakeapi.New(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
		pod := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod); err != nil {
			t.Fatal(err)
		}
		seen := pod.DeepCopy()
		pod.Annotations = map[string]string{v1alpha1.AnnotationTargets: v1alpha1.TargetsIn}
		if err := api.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{client: api, answers: newAnswers()}
		if err := r.writeHook(t.Context(), targets.HookWrite{Pod: seen, In: in}); apierrors.IsConflict(err) == in {
			t.Errorf("in %t: %v", in, err)
		}
		if err := r.writeHook(t.Context(), targets.HookWrite{Pod: pod, In: in}); err != nil {
			t.Errorf("in %t, as it is: %v", in, err)
		}
	}
}

// TestAGateIsWrittenAsItsPodWasSeen: a leader that was frozen closes no gate that another one has
// opened since.
func TestAGateIsWrittenAsItsPodWasSeen(t *testing.T) {
	for name, c := range map[string]struct{ leads, changed, writes bool }{
		"as it was seen":                 {leads: true, writes: true},
		"opened by another leader since": {leads: true, changed: true},
		"without the lease":              {},
	} {
		t.Run(name, func(t *testing.T) {
			api := fakeapi.New(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
			pod := &corev1.Pod{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, pod); err != nil {
				t.Fatal(err)
			}
			seen := pod.DeepCopy()
			if pod.Status.Conditions = []corev1.PodCondition{{Type: webGate, Status: corev1.ConditionTrue}}; c.changed {
				if err := api.Status().Update(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			r := reconcilerOf(t, api)
			r.Leads = func() bool { return c.leads }
			d := decided(time.Now())
			d.Gates = []targets.GateWrite{{Pod: seen, Condition: corev1.PodCondition{Type: webGate, Status: corev1.ConditionFalse, Reason: targets.GateRegistering}}}
			r.apply(t.Context(), &observed{}, d)
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			gate := conditionOf(pod, webGate)
			if closed := gate != nil && gate.Status == corev1.ConditionFalse; closed != c.writes {
				t.Errorf("%+v", gate)
			}
		})
	}
}

// TestAWriteThatHangsWaitsAlone goes on with the calls about everything else, in this pass
// and the next, and calls for a pass when it ends.
func TestAWriteThatHangsWaitsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		api := fakeapi.New(t, named("one", v1alpha1.Finalizer), named("two", v1alpha1.Finalizer))
		api.Refuse = func(what string) error {
			if what == statusOfOne {
				<-hangs
			}
			return nil
		}
		objects := stored(t, api, named("one"), named("two"))
		r := reconcilerOf(t, api)
		triggered := 0
		r.writes.trigger = func() { triggered++ }
		began := time.Now()
		r.apply(t.Context(), &observed{}, decided(time.Now(), objects...))
		if got := r.queued(); !slices.Equal(got, []string{"i-two"}) || time.Since(began) > patience {
			t.Errorf("%v after %s", got, time.Since(began))
		}
		// An account of which no call is under way.
		r.accounts = reconcilerOf(t, api).accounts
		r.apply(t.Context(), &observed{}, decided(time.Now(), objects[0]))
		if got := r.queued(); len(got) > 0 {
			t.Errorf("%v is called for while it is written still", got)
		}
		if n := len(slices.DeleteFunc(api.Writes(), func(w string) bool { return w != statusOfOne })); n != 1 {
			t.Errorf("it is written %d times at once", n)
		}
		close(hangs)
		synctest.Wait()
		if triggered != 1 {
			t.Errorf("%d passes are called for", triggered)
		}
	})
}

// TestWritingGates writes to some pods in a pass, to each once, and leaves alone what
// others wrote.
func TestWritingGates(t *testing.T) {
	kubelets := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var gates []targets.GateWrite
	var objects []client.Object
	for i := range gatesAPass + 2 {
		p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{kubelets}}}
		p.Namespace, p.Name, p.UID, p.ResourceVersion = "ns", fmt.Sprintf("p-%02d", i), types.UID(strconv.Itoa(i)), "1"
		gates = append(gates, targets.GateWrite{Pod: p.DeepCopy(), Condition: corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(now)}})
		if i > 0 { // The first is gone.
			objects = append(objects, p)
		}
	}
	api := fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).Build()
	written := func() (names []string) {
		t.Helper()
		var list corev1.PodList
		if err := api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if got := conditionOf(p, webGate); got != nil && got.Status == corev1.ConditionTrue {
				names = append(names, p.Name)
			}
			if conditionOf(p, corev1.ContainersReady) == nil {
				t.Errorf("%s lost the condition of its kubelet", p.Name)
			}
		}
		return names
	}
	r := &Reconciler{client: api, answers: newAnswers()}
	left, err := r.writeGates(t.Context(), gates)
	if names := written(); err != nil || !left || len(names) != gatesAPass-1 {
		t.Errorf("%v, left %t, %v", names, left, err)
	}
	// The events of those have come, and one is to be written again.
	gates = append(gates[gatesAPass:], gates[2])
	gates[len(gates)-1].Pod.ResourceVersion = "2"
	left, err = r.writeGates(t.Context(), gates)
	if names := written(); err != nil || left || len(names) != gatesAPass+1 {
		t.Errorf("%v, left %t, %v", names, left, err)
	}
	// The events of these have not come yet.
	gates[0].Condition.Status = corev1.ConditionFalse
	left, err = r.writeGates(t.Context(), gates)
	if names := written(); err != nil || left || len(names) != gatesAPass+1 {
		t.Errorf("written again: %v, left %t, %v", names, left, err)
	}
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// TestAPodOfTheSameNameIsLeftAlone says which pod is meant, so that the API server
// refuses to write on its successor.
func TestAPodOfTheSameNameIsLeftAlone(t *testing.T) {
	successor := &corev1.Pod{}
	successor.Namespace, successor.Name, successor.UID = "ns", "p", "2"
	meant := func(patch client.Patch, o client.Object) error {
		data, err := patch.Data(o)
		if err == nil && !strings.Contains(string(data), `"uid":"2"`) {
			// As the API server answers; the fake takes any.
			err = apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), errors.New("the uid differs"))
		}
		return err
	}
	api := fake.NewClientBuilder().WithObjects(successor).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := meant(patch, o); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := meant(patch, o); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}).Build()
	for _, uid := range []types.UID{"1", "2"} {
		pod := successor.DeepCopy()
		pod.UID = uid
		r := &Reconciler{client: api, answers: newAnswers()}
		if err := r.writeGate(t.Context(), targets.GateWrite{Pod: pod, Condition: corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}); err != nil {
			t.Fatal(err)
		}
		if err := r.writeHook(t.Context(), targets.HookWrite{Pod: pod, In: true}); (err == nil) != (uid == "2") {
			t.Errorf("meant for %s: %v", uid, err)
		}
		got := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(successor), got); err != nil {
			t.Fatal(err)
		}
		written, told := conditionOf(got, webGate) != nil, got.Annotations[v1alpha1.AnnotationTargets] == v1alpha1.TargetsIn
		if written != (uid == "2") || told != (uid == "2") {
			t.Errorf("meant for %s: written %t, told %t", uid, written, told)
		}
	}
}

// TestTheFinalizerGoesLast lets go of an object when its last status is written, and not
// where that fails.
func TestTheFinalizerGoesLast(t *testing.T) {
	for name, err := range map[string]error{"written": nil, "refused": errors.New("refused")} {
		object := named("one", v1alpha1.Finalizer)
		object.DeletionTimestamp = &metav1.Time{Time: now}
		api := fakeapi.New(t, object)
		api.Refuse = func(what string) error { return failFor(what, statusOfOne, err) }
		seen := stored(t, api, named("one"))[0]
		status := v1alpha1.TargetGroupAttachmentStatus{Groups: []v1alpha1.AttachedGroup{{ID: "arn:web"}}}
		r := &Reconciler{client: api, answers: newAnswers()}
		if got := r.writeAttachment(t.Context(), targets.AttachmentDecision{Object: seen, Status: status, Release: true}); (got == nil) != (err == nil) {
			t.Errorf("%s: %v", name, got)
		}
		if there := api.Get(t.Context(), client.ObjectKeyFromObject(object), &v1alpha1.TargetGroupAttachment{}) == nil; there != (err != nil) {
			t.Errorf("%s: it is there %t", name, there)
		}
		if r.answers.hasEnded(seen.UID) != (err == nil) {
			t.Errorf("%s: it has ended %t", name, err != nil)
		}
	}
}

// TestAccountsAreLeft stops the calls of an account that nobody needs any more.
func TestAccountsAreLeft(t *testing.T) {
	r := reconcilerOf(t, nil)
	a := r.accounts[v1alpha1.AssumeRole{}]
	role := v1alpha1.AssumeRole{ARN: "arn:aws:iam::111111111111:role/a"}
	r.Roles = []v1alpha1.AssumeRole{role}
	r.Connect = func(*v1alpha1.AssumeRole, func(context.Context) error) (Cloud, error) {
		return nil, errors.New("denied")
	}
	r.useAccounts(targets.Decision{Accounts: []targets.AccountPlan{{Role: role}}})
	if len(r.accounts) != 1 || r.accounts[role] == nil || a.running.Err() == nil {
		t.Errorf("%v", r.accounts)
	}
}
