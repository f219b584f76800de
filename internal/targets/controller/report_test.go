package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestEventsWaitForTheirStatus makes an event once, when its status is accepted: also where that takes
// longer than the pass that began to write it, and not where it is refused.
func TestEventsWaitForTheirStatus(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "one", errors.New("changed"))
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		told  bool
	}{
		"at once":                  {0, nil, true},
		"longer than the pass":     {2 * patience, nil, true},
		"refused":                  {0, conflict, false},
		"refused after the pass":   {2 * patience, conflict, false},
		"no answer after the pass": {2 * patience, errors.New("no answer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := fakeapi.New(t, named("one", v1alpha1.Finalizer))
				api.Refuse = func(what string) error {
					if what == statusOfOne {
						time.Sleep(c.takes)
					}
					return failFor(what, statusOfOne, c.err)
				}
				r := reconcilerOf(t, api)
				d := decided(time.Now(), stored(t, api, named("one"))...)
				d.Attachments[0].Events = []targets.Event{{Reason: "TargetsRefused", Action: "Blocked", Message: "full"}}
				pass := func(d targets.Decision) {
					o := &observed{state: targets.State{Now: time.Now()}}
					r.report(t.Context(), o, d, r.apply(t.Context(), o, d))
				}
				pass(d)
				time.Sleep(c.takes)
				synctest.Wait()
				// What is decided next has the status by then, and no event.
				pass(targets.Decision{Accounts: d.Accounts})
				pass(targets.Decision{Accounts: d.Accounts})
				recorder := r.recorder.(*events.FakeRecorder)
				if got := len(recorder.Events); (got == 1) != c.told || got > 1 {
					t.Errorf("%d events", got)
				}
				if len(r.untold) > 0 {
					t.Errorf("kept: %+v", r.untold)
				}
			})
		})
	}
}

// TestCallsAreLogged says of each call that moves targets which, why and how it ended, once.
func TestCallsAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := logr.NewContext(context.Background(), logger)
	a := accountOf(&fakeCloud{calls: make(chan string, 10)}, func() {})
	d := moves(time.Now())
	d.Reports[0].Message, d.Reports[1].Message = "it is being deregistered, because pod ns/a is being deleted", "it is being registered, because pod ns/b is to serve"
	a.plan("arn:web", d, false)
	for {
		call, ready, _ := a.calls.Next(time.Now())
		if !ready {
			break
		}
		a.call(ctx, call, group(targets.Instance))
	}
	want := []string{
		`"level"=0 "msg"="called the cloud" "call"="Deregister" "group"="arn:web" "targets"={"i-a:80"="it is being deregistered, because pod ns/a is being deleted"} "outcome"="Failed" "answer"="broken"`,
		`"level"=0 "msg"="called the cloud" "call"="Register" "group"="arn:web" "targets"={"i-b:80"="it is being registered, because pod ns/b is to serve"} "outcome"="Accepted" "answer"=""`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestListsAreLogged when the cloud answers first, and when that begins or ends to fail, and not each time.
func TestListsAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{calls: make(chan string, 10)}
		a := accountOf(cloud, func() {})
		a.role = "arn:role"
		a.groups = &listing[targets.Group]{what: "reading the target groups", list: a.countedList, trigger: func() {}}
		for _, failure := range []error{nil, nil, errors.New("denied"), errors.New("denied again"), nil, nil} {
			cloud.err = failure
			time.Sleep(failedAgain)
			a.groups.renew(logr.NewContext(t.Context(), logger), 0)
			synctest.Wait()
		}
	})
	want := []string{
		`"level"=0 "msg"="the cloud lists its target groups" "role"="arn:role" "groups"=1`,
		`"msg"="the cloud does not list its target groups" "error"="denied" "role"="arn:role"`,
		`"level"=0 "msg"="the cloud lists its target groups" "role"="arn:role" "groups"=1`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestWritesAreLogged says of each finalizer and each drain hook that was written which, and why, once,
// and nothing of one that was refused.
func TestWritesAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := logr.NewContext(t.Context(), logger)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	api := fakeapi.New(t, named("one"), pod)
	r := &Reconciler{client: api, answers: newAnswers()}
	seen := stored(t, api, named("one"))[0]
	api.Refuse = func(string) error { return errors.New("refused") }
	for range 2 {
		_ = r.writeAttachment(ctx, targets.AttachmentDecision{Object: seen, AddFinalizer: true})
		_ = r.writeHook(ctx, targets.HookWrite{Pod: pod, In: true})
		api.Refuse = nil
	}
	if err := r.writeAttachment(ctx, targets.AttachmentDecision{Object: stored(t, api, named("one"))[0], Release: true}); err != nil {
		t.Error(err)
	}
	want := []string{
		`"level"=0 "msg"="carried out" "action"="AddFinalizer" "reason"="its targets are to be taken out before it is gone" "object"="ns/one"`,
		`"level"=0 "msg"="carried out" "action"="TellHook" "reason"="it may get traffic as a target" "pod"="ns/p" "node"="n"`,
		`"level"=0 "msg"="carried out" "action"="RemoveFinalizer" "reason"="nothing that it registered is left" "object"="ns/one"`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// reported is what the metrics tell under a name, by the values of labels in the order of the labels' names.
func reported(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			var values []string
			for _, l := range m.Label {
				values = append(values, l.GetValue())
			}
			if family.GetName() == name {
				out[strings.Join(values, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// TestTargetsAreCounted tells of each group that something is kept in how its targets are, and forgets it
// when nothing is.
func TestTargetsAreCounted(t *testing.T) {
	groupTargets.Reset()
	r := reconcilerOf(t, fakeapi.New(t))
	now := time.Now()
	group := func(id string, registered map[targets.Target]targets.Health) targets.KnownGroup {
		return targets.KnownGroup{Group: targets.Group{ID: "arn:" + id, Name: id}, ReadAt: now, Registered: registered}
	}
	health := func(c targets.Condition) targets.Health { return targets.Health{Condition: c} }
	web := group("web", map[targets.Target]targets.Health{
		{ID: "i-a", Port: 80}: health(targets.Healthy), {ID: "i-b", Port: 80}: health(targets.Healthy), {ID: "i-c", Port: 80}: health(targets.Draining),
	})
	other, strangers, unread := group("other", nil), group("strangers", nil), group("unread", nil)
	unread.ReadAt = time.Time{}
	role := v1alpha1.AssumeRole{ARN: "arn:role"}
	accounts := []targets.Account{
		{Groups: []targets.KnownGroup{web, strangers, unread}},
		// Another role that lists the same group is not the one by which it is reached.
		{Role: role, Groups: []targets.KnownGroup{other, group("web", nil)}},
	}
	plans := []targets.GroupPlan{{ID: "arn:web"}, {ID: "arn:unread"}, {Role: role, ID: "arn:other"}}
	r.countTargets(accounts, plans)
	want := map[string]float64{}
	for _, c := range healths {
		want["web "+string(c)+" arn:web"], want["other "+string(c)+" arn:other"] = 0, 0
	}
	want["web healthy arn:web"], want["web draining arn:web"] = 2, 1
	if diff := cmp.Diff(want, reported(t, "ingressdaemonset_group_targets")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r.countTargets(accounts, plans[2:])
	for of := range want {
		if strings.HasPrefix(of, "web ") {
			delete(want, of)
		}
	}
	if diff := cmp.Diff(want, reported(t, "ingressdaemonset_group_targets")); diff != "" {
		t.Errorf("when nothing is kept in one any more (-want +got)\n%s", diff)
	}
	r.countTargets(nil, nil)
	if left := reported(t, "ingressdaemonset_group_targets"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestListsAreCounted by role: where the cloud cannot be reached, nothing else tells of it, and one account that
// answers says nothing of another.
func TestListsAreCounted(t *testing.T) {
	r := reconcilerOf(t, fakeapi.New(t))
	r.Connect = func(*v1alpha1.AssumeRole, func(context.Context) error) (Cloud, error) {
		return nil, errors.New("no credentials")
	}
	r.Outcome = func(error) targets.Outcome { return targets.Throttled }
	const counted = "List Throttled arn:role"
	role := v1alpha1.AssumeRole{ARN: "arn:role"}
	r.Roles = []v1alpha1.AssumeRole{role}
	before := reported(t, "ingressdaemonset_cloud_calls_total")[counted]
	if _, err := r.newAccount(role).groups.list(t.Context()); err == nil {
		t.Fatal("groups are listed without credentials")
	}
	if got := reported(t, "ingressdaemonset_cloud_calls_total")[counted]; got != before+1 {
		t.Errorf("%v lists are counted, after %v", got, before)
	}
}
