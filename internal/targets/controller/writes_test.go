package controller

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhatIsNotDueIsNotTriedAgain: a write that failed calls for a pass when it may be tried
// again, and for no other where that pass has nothing to write any more.
func TestWhatIsNotDueIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ref := newWrites(func() {}), targets.Ref{Name: "a"}
		there := map[targets.Ref]bool{ref: true}
		w.begin(t.Context(), ref, func(context.Context) error { return errors.New("refused") })
		synctest.Wait()
		w.keep(there)
		if at := w.next(); !at.Equal(time.Now().Add(firstRetry)) {
			t.Errorf("it is tried again at %s", at)
		}
		time.Sleep(firstRetry)
		w.keep(there)
		if at := w.next(); !at.IsZero() {
			t.Errorf("what is not due any more is tried again at %s", at)
		}
	})
}

// TestANodeIsBackWhenThatIsRecorded writes that a node is back after all TargetGroupAttachments, and not where
// one was changed meanwhile; one that cannot be written keeps no node.
func TestANodeIsBackWhenThatIsRecorded(t *testing.T) {
	const back = "update Attachment/status node-a"
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "one", errors.New("changed"))
	for name, c := range map[string]struct {
		err  error
		back bool
	}{"is written": {nil, true}, "was changed meanwhile": {conflict, false}, "cannot be written": {errors.New("refused"), true}} {
		synctest.Test(t, func(t *testing.T) {
			a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1", Generation: 2}, Spec: v1alpha1.AttachmentSpec{Wanted: v1alpha1.WantAttached}}
			a.Status.Done, a.Status.ObservedGeneration = true, 1
			api := fakeapi.New(t, a.DeepCopy(), named("one", v1alpha1.Finalizer))
			var recorded atomic.Bool
			api.Refuse = func(what string) error {
				switch {
				case c.err != nil:
				case what == statusOfOne:
					time.Sleep(patience / 2)
					recorded.Store(true)
				case what == back && !recorded.Load():
					t.Error("it is said to be back before that is recorded")
				}
				return failFor(what, statusOfOne, c.err)
			}
			r := reconcilerOf(t, api)
			d := decided(time.Now(), stored(t, api, named("one"))...)
			d.Groups = nil // Calls would wait for what they need themselves.
			d.NodeAttachments = []targets.NodeAttachmentDecision{{Object: a, Status: v1alpha1.AttachmentStatus{Done: true, ObservedGeneration: 2}}}
			r.apply(t.Context(), &observed{}, d)
			if writes := api.Writes(); slices.Contains(writes, back) != c.back {
				t.Errorf("where it %s: %v", name, writes)
			}
		})
	}
}

// TestANodeIsNotBackWhileThatIsBeingRecorded by an earlier pass; and what says that it is back, and fails, is
// tried again ever more seldom.
func TestANodeIsNotBackWhileThatIsBeingRecorded(t *testing.T) {
	const back = "update Attachment/status node-a"
	synctest.Test(t, func(t *testing.T) {
		a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1"}, Spec: v1alpha1.AttachmentSpec{Wanted: v1alpha1.WantAttached}}
		api := fakeapi.New(t, a.DeepCopy(), named("one", v1alpha1.Finalizer))
		api.Refuse = func(what string) error { return failFor(what, back, errors.New("refused")) }
		r := reconcilerOf(t, api)
		d := decided(time.Now(), stored(t, api, named("one"))...)
		d.NodeAttachments = []targets.NodeAttachmentDecision{{Object: a, Status: v1alpha1.AttachmentStatus{Done: true}}}
		hangs := make(chan struct{})
		r.writes.begin(t.Context(), (&targets.GroupAttachment{Object: d.Attachments[0].Object}).Ref(), func(context.Context) error {
			<-hangs
			return nil
		})
		r.apply(t.Context(), &observed{}, d)
		if r.writes.of[targets.RefOf(a)] != nil {
			t.Error("it is said to be back while that is being recorded")
		}
		close(hangs)
		synctest.Wait()
		d.Attachments = nil
		for times := range 3 {
			r.apply(t.Context(), &observed{}, d)
			if one := r.writes.of[targets.RefOf(a)]; one == nil || one.failures != times+1 {
				t.Errorf("it has failed %d times, and %+v is remembered", times+1, one)
			}
			time.Sleep(firstRetry << times)
		}
	})
}
