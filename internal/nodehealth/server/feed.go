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

// feed is the store of one kind of objects and how it is filled. It is open while a
// watch is, and all that there was has been told before: by a list, or by the closing
// bookmark of a watch's initial events. A watch that only opens proves nothing: that of
// an API server that lags, or is cut off from its storage, stays silent.
type feed struct {
	cache.Store
	reflector *cache.Reflector
	link      *link
	synced    atomic.Bool
	change    func()
	// old says whether the API server knows no watch that begins with all that there is.
	old atomic.Bool

	mu             sync.Mutex
	told, watching bool
	// retry is the time to the next request after a failure, nil after none. Only a feed that
	// was open for steadyFor has not failed when it ends.
	retry *wait.Backoff
}

// errMissed makes a reflector list again instead of going on with a watch.
var errMissed = apierrors.NewResourceExpired("what changed meanwhile may have been missed")

// errOnlyWatches keeps a reflector from a list where the API server knows the other way. An
// API server that is behind reads what it lists from its storage, all that is in the
// namespace, for each node that asks: so it never comes round.
var errOnlyWatches = errors.New("it is watched from the beginning instead")

// retryDelays let an API server that returns be found within seconds, and one that is
// overloaded recover, since a feed of each node asks.
var retryDelays = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 7, Cap: 16 * time.Second}

// endDelay is how much later than asked for a watch may end that an API server ends.
const endDelay = 2 * time.Second

// steadyFor is for how long a feed is open that is none of an API server that is overloaded.
const steadyFor = time.Minute

func (w *Watcher) newFeed(name string, source *cache.ListWatch, kind runtime.Object) *feed {
	f := &feed{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), link: w.link, change: w.change}
	f.reflector = cache.NewReflectorWithOptions(f.observed(source), kind, f, cache.ReflectorOptions{
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

// Replace is what a reflector does with a list and with initial events that are complete.
func (f *feed) Replace(objects []any, version string) error {
	defer f.change()
	if err := f.Store.Replace(objects, version); err != nil {
		return err
	}
	f.synced.Store(true)
	f.set(func() { f.told = true })
	return nil
}

// set changes what the feed is open by, and tells the link.
func (f *feed) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.told && f.watching
	change()
	switch after := f.told && f.watching; {
	case after && !before:
		f.link.opened(time.Now())
	case before && !after:
		f.link.closed(time.Now())
	}
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
	f.mu.Lock()
	var d time.Duration
	if f.retry != nil {
		d = f.retry.Step()
	}
	f.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// retries has the next requests come later and later, until a feed is steady.
func (f *feed) retries() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retry == nil {
		f.retry = new(retryDelays)
	}
}

// observed tells the link when the feed opens, fails to, and ends.
func (f *feed) observed(source *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if !f.old.Load() {
				return nil, errOnlyWatches
			}
			f.pause(ctx)
			// Any other version allows for a list from before a mark was set.
			options.ResourceVersion, options.ResourceVersionMatch = "", ""
			list, err := source.ListWithContext(ctx, options)
			if err != nil {
				f.failed(err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				options.ResourceVersion = ""
			} else if !f.mayGoOn() {
				return nil, errMissed
			}
			f.pause(ctx)
			began := time.Now()
			opened, err := source.WatchWithContext(ctx, options)
			if err != nil {
				f.failed(err)
				return nil, err
			}
			f.set(func() { f.watching = true })
			f.change()
			return &observedWatch{opened, sync.OnceFunc(func() { f.ended(began, options.TimeoutSeconds) })}, nil
		},
	}
}

// mayGoOn reports whether a watch may go on from where the last ended.
func (f *feed) mayGoOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// ended is called when a watch has. One that the API server ends at the time that it was
// asked to has missed nothing, and the next goes on at once. One that lasts longer has met an
// API server that hangs.
func (f *feed) ended(began time.Time, seconds *int64) {
	inTime := seconds != nil && isAbout(time.Since(began), time.Duration(*seconds)*time.Second)
	steady := inTime || time.Since(began) >= steadyFor
	f.set(func() {
		if f.told && steady {
			f.retry = nil
		}
		f.watching, f.told = false, f.told && inTime
	})
	if !steady {
		f.retries()
	}
	f.change()
}

// isAbout reports whether a watch lasted for as long as it was asked to.
func isAbout(lasted, asked time.Duration) bool { return lasted >= asked && lasted <= asked+endDelay }

// failed tells the link, but where the API server is too old for the kind of watch that
// is tried first.
func (f *feed) failed(err error) {
	if apierrors.IsInvalid(err) {
		f.old.Store(true)
		return
	}
	f.set(func() { f.told = false })
	f.link.failed(time.Now(), err)
	f.change()
	f.retries()
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
