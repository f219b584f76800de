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
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
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
