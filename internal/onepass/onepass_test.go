package onepass

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestEventsAreGathered: events of a moment, and what is triggered meanwhile, come to one pass.
func TestEventsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const moment = 50 * time.Millisecond
		queue := workqueue.NewTypedRateLimitingQueue[reconcile.Request](Options().RateLimiter)
		defer queue.ShutDown()
		var now time.Duration = moment
		passes := GatherFor(func() time.Duration { return now })
		if err := passes.Triggered().Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		passes.Create(t.Context(), event.CreateEvent{Object: pod}, queue)
		passes.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, queue)
		passes.Delete(t.Context(), event.DeleteEvent{Object: pod}, queue)
		for range 3 {
			passes.Trigger()
		}
		synctest.Wait()
		if n := queue.Len(); n != 0 {
			t.Errorf("%d passes are called for at once", n)
		}
		time.Sleep(moment + time.Millisecond)
		synctest.Wait()
		if n := queue.Len(); n != 1 {
			t.Fatalf("%d passes are called for, want one", n)
		}
		if what, _ := queue.Get(); what != Everything {
			t.Errorf("it is for %v", what)
		}
		queue.Done(Everything)
		passes.Trigger()
		time.Sleep(moment + time.Millisecond)
		synctest.Wait()
		if n := queue.Len(); n != 1 {
			t.Errorf("%d passes are triggered, want one", n)
		}
		queue.Get()
		queue.Done(Everything)
		now = 0
		passes.Create(t.Context(), event.CreateEvent{Object: pod}, queue)
		if n := queue.Len(); n != 1 {
			t.Errorf("after another moment %d passes are called for, want one at once", n)
		}
	})
}
