package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// TestFeedOfAnOverloadedAPIServer asks less and less, and for no list, which costs more: were
// each checker of a large cluster to go on at its first pace, the API server would never come
// round. One that breaks a watch now and then is asked again at once.
func TestFeedOfAnOverloadedAPIServer(t *testing.T) {
	// They wait by the clock of outside the bubble.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	for name, c := range map[string]struct {
		refuses bool
		lasts   time.Duration
		least   int32
		most    int32
	}{
		"it refuses watches":        {true, 0, 15, 60},
		"watches break at once":     {false, 10 * time.Millisecond, 15, 60},
		"watches break within 10 s": {false, 10 * time.Second, 10, 40},
		"watches last for long":     {false, 90 * time.Second, 6, 8},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var asked, lists atomic.Int32
			source := &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					lists.Add(1)
					return &appsv1.DeploymentList{}, nil
				},
				WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
					asked.Add(1)
					if c.refuses {
						return nil, errors.New("it takes too long")
					}
					w := watch.NewFakeWithChanSize(1, false)
					if c.lasts > time.Second {
						w.Action(watch.Bookmark, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
							ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
						}})
					}
					time.AfterFunc(c.lasts, w.Stop)
					return w, nil
				},
			}
			w := &Watcher{link: newLink(1, time.Now(), time.Now()), changed: make(chan struct{}, 1)}
			f := w.newFeed("deployments", source, &appsv1.Deployment{})
			ended := make(chan struct{})
			go func() { f.reflector.RunWithContext(ctx); close(ended) }()
			time.Sleep(10 * time.Minute)
			if n := asked.Load(); n < c.least || n > c.most {
				t.Errorf("%s: asked %d times in 10 minutes", name, n)
			}
			if n := lists.Load(); n > 0 {
				t.Errorf("%s: %d lists", name, n)
			}
			stop()
			<-ended
		})
	}
}

// TestHangAcrossTheEndOfAWatch leaves it to what is told anew whether the API server is back:
// a watch that opens there says nothing of what happened while it hung.
func TestHangAcrossTheEndOfAWatch(t *testing.T) {
	for lasted, goesOn := range map[time.Duration]bool{
		299 * time.Second: false, 300 * time.Second: true, 301 * time.Second: true, 315 * time.Second: false,
	} {
		now := time.Now()
		l := newLink(1, now, now)
		f := &feed{link: l, change: func() {}}
		f.set(func() { f.told, f.watching = true, true })
		f.ended(now.Add(-lasted), new(int64(300)))
		f.set(func() { f.watching = true })
		if open := l.view(time.Now()).lostAt.IsZero(); open != goesOn || f.mayGoOn() != goesOn {
			t.Errorf("a watch of 300 s that ended after %v: the next counts at once: %t, and goes on: %t", lasted, open, f.mayGoOn())
		}
	}
}
