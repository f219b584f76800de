package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// view is what a leader's cache holds of one kind. Its watch brings every change, in
// order, but late; the watches of other kinds are late by themselves, so that there
// never was a moment at which all was as a leader sees it.
type view struct {
	l       *leader
	store   toolscache.Indexer
	watches []watched
	// late are the events under way, the first when it happened and when the last comes.
	late []time.Time
	last time.Time
	// lag is how late events are where that is not drawn anew for each.
	lag time.Duration
}

// usualLag is how late an event comes at most where nothing is wrong with its watch.
const usualLag = 100 * time.Millisecond

type watched struct {
	events  handler.EventHandler
	changes predicate.Predicate
}

// openViews lists all kinds that the controller watches.
func (l *leader) openViews() {
	l.views = map[string]*view{}
	itself := watch{&v1alpha1.IngressDaemonSet{}, nil, l.r.changesOfItself()}
	for _, w := range append(l.r.watches(), itself) {
		kind := kindOf(w.kind)
		v := l.views[kind]
		if v == nil {
			v = &view{l: l, store: inOrder{toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
				toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc, byNode: nodeIndexers[byNode],
			})}}
			l.views[kind] = v
			for _, obj := range l.w.api.All(kind) {
				_ = v.store.Add(transformed(obj))
			}
		}
		events := handler.EventHandler(&handler.EnqueueRequestForObject{})
		if w.sets != nil {
			events = l.r.enqueue(w.sets)
		}
		v.watches = append(v.watches, watched{events, w.changes})
	}
}

func kindOf(obj client.Object) string {
	name := fmt.Sprintf("%T", obj)
	return name[strings.LastIndex(name, ".")+1:]
}

// inOrder is a store that lists what it holds in order, so that a world is the same
// whenever it is played.
type inOrder struct{ toolscache.Indexer }

func (s inOrder) List() []any { return sortedByName(s.Indexer.List()) }

func (s inOrder) ByIndex(index, value string) ([]any, error) {
	objects, err := s.Indexer.ByIndex(index, value)
	return sortedByName(objects), err
}

func sortedByName(objects []any) []any {
	slices.SortFunc(objects, func(a, b any) int {
		return strings.Compare(a.(client.Object).GetName(), b.(client.Object).GetName())
	})
	return objects
}

// transformed is an object as the cache keeps it.
func transformed(obj client.Object) client.Object {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		stripped := *o
		stripped.ManagedFields = slices.Clone(o.ManagedFields)
		_, _ = transformDeployment(&stripped)
		return stripped.DeepCopy()
	case *corev1.Pod:
		stripped := *o
		_, _ = transformPod(&stripped)
		return stripped.DeepCopy()
	case *corev1.Node:
		stripped := *o
		_, _ = transformNode(&stripped)
		return stripped.DeepCopy()
	}
	return obj.DeepCopyObject().(client.Object)
}

// hears sends a change on its way to the leader.
func (l *leader) hears(before, after client.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	v := l.views[kindOf(obj)]
	if v == nil {
		return
	}
	at := l.w.now.Add(max(v.lag, l.w.between(5*time.Millisecond, usualLag)))
	if v.last.After(at) {
		at = v.last
	}
	v.last = at
	v.late = append(v.late, l.w.now)
	l.w.at(at, func() { v.comes(before, after) })
}

// comes is when a change arrives.
func (v *view) comes(before, after client.Object) {
	if v.l.stopped {
		return
	}
	if until := v.l.frozenUntil; v.l.w.now.Before(until) {
		v.l.w.at(until, func() { v.comes(before, after) })
		return
	}
	v.late = v.late[1:]
	q := called{l: v.l}
	if after == nil {
		gone := transformed(before)
		_ = v.store.Delete(gone)
		for _, w := range v.watches {
			if e := (event.DeleteEvent{Object: gone}); w.changes.Delete(e) {
				w.events.Delete(ctx, e, q)
			}
		}
		return
	}
	now := transformed(after)
	key, _ := toolscache.MetaNamespaceKeyFunc(now)
	old, known, _ := v.store.GetByKey(key)
	_ = v.store.Add(now)
	if _, ok := now.(*corev1.Node); ok {
		v.l.r.saw(now)
	}
	for _, w := range v.watches {
		if !known {
			if e := (event.CreateEvent{Object: now}); w.changes.Create(e) {
				w.events.Create(ctx, e, q)
			}
		} else if e := (event.UpdateEvent{ObjectOld: old.(client.Object), ObjectNew: now}); w.changes.Update(e) {
			w.events.Update(ctx, e, q)
		}
	}
}

// asOf is since when there are changes that the leader has not heard of.
func (l *leader) asOf() time.Time {
	at := l.w.now
	for _, v := range l.views {
		if len(v.late) > 0 && v.late[0].Before(at) {
			at = v.late[0]
		}
	}
	return at
}

// seenSince reports whether every leader has seen what was so at a time.
func (w *world) seenSince(at time.Time) bool {
	return !slices.ContainsFunc(w.leaders, func(l *leader) bool { return !l.asOf().After(at) })
}

func (l *leader) index(_ context.Context, kind client.Object) (toolscache.Indexer, error) {
	return l.views[kindOf(kind)].store, nil
}

// Get reads the cache.
func (c *simClient) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	name := key.Name
	if key.Namespace != "" {
		name = key.Namespace + "/" + key.Name
	}
	held, ok, _ := c.l.views[kindOf(obj)].store.GetByKey(name)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kindOf(obj)}, key.Name)
	}
	return apiserver.Assign(obj, held.(client.Object))
}

// List reads the cache, in order of the names.
func (c *simClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	switch list := list.(type) {
	case *v1alpha1.IngressDaemonSetList:
		list.Items = listed[v1alpha1.IngressDaemonSet](c.l, o)
	case *appsv1.DaemonSetList:
		list.Items = listed[appsv1.DaemonSet](c.l, o)
	case *corev1.PodList:
		list.Items = listed[corev1.Pod](c.l, o)
	case *appsv1.ControllerRevisionList:
		list.Items = listed[appsv1.ControllerRevision](c.l, o)
	case *discoveryv1.EndpointSliceList:
		list.Items = listed[discoveryv1.EndpointSlice](c.l, o)
	default:
		return fmt.Errorf("%T is not listed here", list)
	}
	return nil
}

func listed[T any, P interface {
	*T
	client.Object
}](l *leader, o client.ListOptions) []T {
	objects := typed([]P(nil), l.views[kindOf(P(nil))].store.List())
	var out []T
	for _, obj := range objects {
		if o.Namespace != "" && obj.GetNamespace() != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labelSet(obj)) {
			continue
		}
		out = append(out, *obj)
	}
	return out
}

func portLabel(port int32) string { return objects.PortLabel(port) }
