package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// feed is the store of one kind of objects and how it is filled.
type feed struct {
	cache.Store
	reflector *cache.Reflector
	synced    atomic.Bool
	change    func()
	retry     wait.Backoff
}

// retryDelays let an API server that returns be found within seconds.
var retryDelays = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 5, Cap: 4 * time.Second}

func (w *Watcher) newFeed(name string, source *cache.ListWatch, kind runtime.Object) *feed {
	f := &feed{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), change: w.change, retry: retryDelays}
	f.reflector = cache.NewReflectorWithOptions(w.observed(f, source), kind, f, cache.ReflectorOptions{
		Name: name,
		// The reflector cannot be stopped while it delays: most of that is in pause.
		Backoff: &wait.Backoff{Duration: 250 * time.Millisecond, Jitter: 1},
	})
	return f
}

func (f *feed) Add(object any) error {
	defer f.change()
	return f.Store.Add(object)
}

func (f *feed) Update(object any) error {
	defer f.change()
	return f.Store.Update(object)
}

func (f *feed) Delete(object any) error {
	defer f.change()
	return f.Store.Delete(object)
}

func (f *feed) Replace(objects []any, version string) error {
	defer f.change()
	defer f.synced.Store(true)
	return f.Store.Replace(objects, version)
}

func listed[T any](f *feed) []T {
	var typed []T
	for _, object := range f.List() {
		typed = append(typed, object.(T))
	}
	return typed
}

// pause follows a failure, longer each time.
func (f *feed) pause(ctx context.Context) {
	select {
	case <-time.After(f.retry.Step()):
	case <-ctx.Done():
	}
}

// observed tells the link when a watch opens, fails to, and ends.
func (w *Watcher) observed(f *feed, source *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				// Any version would do for 0, also one from before a mark was set.
				options.ResourceVersion = ""
			}
			list, err := source.ListWithContext(ctx, options)
			if err != nil {
				f.pause(ctx)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			opened, err := source.WatchWithContext(ctx, options)
			if err != nil {
				w.failed(ctx, f, err)
				return nil, err
			}
			f.retry = retryDelays
			w.link.opened(time.Now())
			w.change()
			return &observedWatch{opened, sync.OnceFunc(func() {
				w.link.closed(time.Now())
				w.change()
			})}, nil
		},
	}
}

// failed tells apart an API server that cannot be reached, one that refuses, and
// one that is too old for the kind of watch that is tried first.
func (w *Watcher) failed(ctx context.Context, f *feed, err error) {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		w.link.failed(time.Now(), err)
		w.change()
	}
	if !apierrors.IsInvalid(err) {
		f.pause(ctx)
	}
}

// observedWatch relies on whoever reads a watch to stop it as soon as it ends.
type observedWatch struct {
	watch.Interface
	ended func()
}

func (o *observedWatch) Stop() {
	o.Interface.Stop()
	o.ended()
}
