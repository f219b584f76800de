// Package gatewayapi watches the kinds of the Gateway API, which may be installed and removed at any time: it
// asks the API server from time to time which of them there are.
package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// lookEvery is how often it is asked which kinds there are.
	lookEvery = 5 * time.Second
	// missesUntilGone is how often in a row a kind is not there until it counts as gone: an API server that has just
	// begun does not know of it for a moment.
	missesUntilGone = 3
)

// kinds are those that are watched, by their names.
var kinds = map[string]client.Object{
	"GatewayClass": &gatewayv1.GatewayClass{}, "Gateway": &gatewayv1.Gateway{},
	"HTTPRoute": &gatewayv1.HTTPRoute{}, "ReferenceGrant": &gatewayv1.ReferenceGrant{},
}

// Names are those of the kinds that are watched, in their order.
var Names = slices.Sorted(maps.Keys(kinds))

// Object is a new object of a kind that is watched, nil for another.
func Object(kind string) client.Object {
	if object, is := kinds[kind]; is {
		return object.DeepCopyObject().(client.Object)
	}
	return nil
}

// listened is an object to watch a kind by: objects are decoded one by one (convert.go).
func listened(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(gatewayv1.SchemeGroupVersion.WithKind(kind))
	return out
}

// Kinds are the kinds of the Gateway API that are installed.
type Kinds struct {
	reader    client.Reader
	informers cache.Informers
	// served asks the API server which kinds it serves.
	served func(context.Context) (map[string]bool, error)

	// Listeners are told of each object that comes, changes or goes, by its kind and name, and of no kind when one did,
	// or is synced. They are set before Start.
	Listeners []func(kind string, name types.NamespacedName)

	mu sync.Mutex
	// answered says whether the API server answered once.
	answered bool
	watched  map[string]*watch
	// begun is how many watches were.
	begun uint64
}

// watch is that of a kind.
type watch struct {
	number uint64
	// missed is how often in a row the kind was not there.
	missed int
	synced func() bool
	end    context.CancelFunc
}

// SetUp has the manager run it, in every replica.
func SetUp(mgr ctrl.Manager) (*Kinds, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		// Whoever reads what was removed meanwhile would wait for it for ever.
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of the Gateway API: %w", err)
	}
	asked, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client that asks for the Gateway API: %w", err)
	}
	k := New(c, c, func(context.Context) (map[string]bool, error) { return servedBy(asked) })
	if err := mgr.Add(cached{c}); err != nil {
		return nil, err
	}
	return k, mgr.Add(k)
}

// cached has the manager start a cache with its own.
type cached struct{ cache.Cache }

// GetCache is of the manager's.
func (c cached) GetCache() cache.Cache { return c.Cache }

// servedBy are the kinds that an API server serves.
func servedBy(asked discovery.DiscoveryInterface) (map[string]bool, error) {
	out := map[string]bool{}
	list, err := asked.ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range list.APIResources {
		out[r.Kind] = true
	}
	return out, nil
}

// New makes Kinds that nobody runs yet. served asks which kinds are served.
func New(reader client.Reader, informers cache.Informers, served func(context.Context) (map[string]bool, error)) *Kinds {
	return &Kinds{reader: reader, informers: informers, served: served, watched: map[string]*watch{}}
}

var _ manager.LeaderElectionRunnable = &Kinds{}

// NeedLeaderElection is of manager.LeaderElectionRunnable.
func (*Kinds) NeedLeaderElection() bool { return false }

// Start is of manager.Runnable.
func (k *Kinds) Start(ctx context.Context) error {
	said := ""
	for {
		why := ""
		if err := k.Look(ctx); err != nil {
			why = err.Error()
		}
		if why != said && why != "" && ctx.Err() == nil {
			log.FromContext(ctx).Info("cannot tell which kinds of the Gateway API there are", "why", why)
		}
		said = why
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// Look asks once which kinds there are, and begins and ends watches as kinds came and went. Start does so again and again.
func (k *Kinds) Look(ctx context.Context) error {
	served, err := k.served(ctx)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", gatewayv1.GroupVersion, err)
	}
	var failed []error
	for _, kind := range Names {
		switch watch, _ := k.Watched(kind); {
		case served[kind] && watch == 0:
			if err := k.begin(ctx, kind); err != nil {
				failed = append(failed, fmt.Errorf("watching each %s: %w", kind, err))
			}
		case watch != 0 && k.isGone(kind, served[kind]):
			if err := k.end(ctx, kind); err != nil {
				failed = append(failed, fmt.Errorf("ending the watch of each %s: %w", kind, err))
			}
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	k.mu.Lock()
	first := !k.answered
	k.answered = true
	k.mu.Unlock()
	if first {
		k.tell("", types.NamespacedName{})
	}
	return nil
}

// isGone counts how often a kind that is watched was not there.
func (k *Kinds) isGone(kind string, served bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.watched[kind]
	if w.missed++; served {
		w.missed = 0
	}
	return w.missed >= missesUntilGone
}

func (k *Kinds) begin(ctx context.Context, kind string) error {
	informer, err := k.informers.GetInformer(ctx, listened(kind), cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	heard, err := informer.AddEventHandler(k.handler(kind))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	k.mu.Lock()
	k.begun++
	k.watched[kind] = &watch{number: k.begun, synced: heard.HasSynced, end: cancel}
	k.mu.Unlock()
	log.FromContext(ctx).Info("watching a kind of the Gateway API", "kind", kind)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), heard.HasSynced) {
			k.tell("", types.NamespacedName{})
		}
	}()
	return nil
}

func (k *Kinds) end(ctx context.Context, kind string) error {
	if err := k.informers.RemoveInformer(ctx, listened(kind)); err != nil {
		return err
	}
	k.mu.Lock()
	k.watched[kind].end()
	delete(k.watched, kind)
	k.mu.Unlock()
	log.FromContext(ctx).Info("a kind of the Gateway API is not served any more", "kind", kind)
	k.tell("", types.NamespacedName{})
	return nil
}

// Get reads an object from a cache. It waits until its kind is synced, and gives Malformed of one that cannot be read.
func (k *Kinds) Get(ctx context.Context, kind string, name types.NamespacedName) (client.Object, error) {
	raw, err := k.Raw(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	return Convert(raw)
}

// Raw reads an object as the API server gave it, which is not changed.
func (k *Kinds) Raw(ctx context.Context, kind string, name types.NamespacedName) (*unstructured.Unstructured, error) {
	raw := listened(kind)
	return raw, k.reader.Get(ctx, name, raw, client.UnsafeDisableDeepCopy)
}

func (k *Kinds) handler(kind string) toolscache.ResourceEventHandler {
	note := func(object any) {
		if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
			object = last.Obj
		}
		if object, is := object.(client.Object); is {
			k.tell(kind, client.ObjectKeyFromObject(object))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }, DeleteFunc: note}
}

func (k *Kinds) tell(kind string, name types.NamespacedName) {
	for _, listener := range k.Listeners {
		listener(kind, name)
	}
}

// Watched says by a number that grows which watch of a kind there is, 0 for none, and whether all there is of the
// kind was heard of, so that it can be read.
func (k *Kinds) Watched(kind string) (watch uint64, synced bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.watched[kind]
	if w == nil {
		return 0, false
	}
	return w.number, w.synced()
}

// Known reports whether it is known whether there is a kind, and what there is of it.
func (k *Kinds) Known(kind string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.watched[kind]; w != nil {
		return w.synced()
	}
	return k.answered
}

// Unknown are the kinds that are not known, in their order.
func (k *Kinds) Unknown() []string { return slices.DeleteFunc(slices.Clone(Names), k.Known) }

// Complete reports whether all kinds are known.
func (k *Kinds) Complete() bool { return len(k.Unknown()) == 0 }
