package attaching

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write does one write as it is done on a bad day: the process may be frozen or die before
// it or after it, it may be refused, its answer may be lost, and it may arrive when nobody waits
// for that any more.
func (l *leader) write(verb string, obj client.Object, do func(*apiserver.Client) error) error {
	w := l.w
	what := fmt.Sprintf("%s %s/%s", verb, reflect.TypeOf(obj).Elem().Name(), obj.GetName())
	l.thawed()
	w.mu.Lock()
	r := w.dice("%s: %s", l.name, what)
	took := between(r, 2*time.Millisecond, 30*time.Millisecond)
	// Whether pods may be stopped, or let go, and nodes taken out, it looks up right before.
	_, pod := obj.(*corev1.Pod)
	freeze := !pod && verb != "create" && l.mayFreeze(r)
	w.mu.Unlock()
	if freeze {
		l.thawed()
	}
	if !w.wait(l.running, took) {
		return errGone
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	crashes := !w.healed && r.Float64() < w.crashes
	if crashes && r.IntN(2) == 0 {
		l.die(between(r, time.Second, 20*time.Second), w.anyStale(r))
	}
	if l.gone {
		return errGone
	}
	if w.refuse[reflect.TypeOf(obj).Elem().Name()+"/"+obj.GetName()] {
		return apierrors.NewForbidden(schema.GroupResource{}, obj.GetName(), errors.New("no"))
	}
	if l.late(verb, what, do) {
		return context.DeadlineExceeded
	}
	err := l.arrives(what, do)
	if crashes && !l.gone {
		l.die(between(r, time.Second, 20*time.Second), w.anyStale(r))
		return errGone
	}
	if err == nil && !w.healed && r.Float64() < w.lostWrites {
		return apierrors.NewTimeoutError("the answer was lost", 1)
	}
	return err
}

// arrives is a write that has reached the API server, with mu held.
func (l *leader) arrives(what string, do func(*apiserver.Client) error) error {
	l.w.audit.writer = l
	err := do(&apiserver.Client{Server: l.w.api})
	l.w.audit.writer = nil
	l.w.say("%s: %s: %v", l.name, what, err)
	return err
}

// late reports whether a write to what is there already arrives only when nobody waits for it any
// more, with mu held: then it is as if it had been refused, for a while.
func (l *leader) late(verb, what string, do func(*apiserver.Client) error) bool {
	w := l.w
	if w.healed || w.scenario.lateWrites == 0 || verb == "create" || verb == "evict" {
		return false
	}
	r := w.dice("%s: %s comes late", l.name, what)
	if r.Float64() >= w.scenario.lateWrites {
		return false
	}
	w.after(between(r, time.Second, 20*time.Second), func() {
		if !w.healed {
			_ = l.arrives(what+", late", do)
		}
	})
	return true
}

// back is what a write answered, by the leader's clock.
func (l *leader) back(obj client.Object) { shifted(obj, -l.skew) }

func (c *cachedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.l.write("create", obj, func(api *apiserver.Client) error { return api.Create(ctx, obj, opts...) })
}

func (c *cachedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.l.write("update", obj, func(api *apiserver.Client) error {
		sent := shifted(obj.DeepCopyObject().(client.Object), c.l.skew)
		if err := api.Update(ctx, sent, opts...); err != nil {
			return err
		}
		c.l.back(sent)
		return apiserver.Assign(obj, sent)
	})
}

func (c *cachedClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.l.write("patch", obj, func(api *apiserver.Client) error {
		if err := api.Patch(ctx, obj, patch, opts...); err != nil {
			return err
		}
		c.l.back(obj)
		return nil
	})
}

func (c *cachedClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if reflect.TypeOf(obj).Elem().Name() == "Pod" {
		return c.evict(obj)
	}
	return c.l.write("delete", obj, func(api *apiserver.Client) error { return api.Delete(ctx, obj, opts...) })
}

// Status writes statuses.
func (c *cachedClient) Status() client.SubResourceWriter { return statusWriter{l: c.l} }

type statusWriter struct {
	client.SubResourceWriter
	l *leader
}

func (s statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.l.write("update status", obj, func(api *apiserver.Client) error {
		sent := shifted(obj.DeepCopyObject().(client.Object), s.l.skew)
		if err := api.Status().Update(ctx, sent, opts...); err != nil {
			return err
		}
		s.l.back(sent)
		return apiserver.Assign(obj, sent)
	})
}

func (s statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.l.write("patch status", obj, func(api *apiserver.Client) error { return api.Status().Patch(ctx, obj, patch, opts...) })
}

// SubResource evicts pods.
func (c *cachedClient) SubResource(string) client.SubResourceClient { return evictions{c: c} }

type evictions struct {
	client.SubResourceClient
	c *cachedClient
}

func (e evictions) Create(_ context.Context, obj, by client.Object, _ ...client.SubResourceCreateOption) error {
	o := by.(*policyv1.Eviction).DeleteOptions
	if o == nil || o.Preconditions == nil || o.Preconditions.UID == nil {
		obj = obj.DeepCopyObject().(client.Object)
		obj.SetUID("")
	}
	return e.c.evict(obj)
}

// evict ends a pod, that of the UID where there is one.
func (c *cachedClient) evict(obj client.Object) error {
	return c.l.write("evict", obj, func(*apiserver.Client) error {
		w := c.l.w
		for _, p := range w.pods {
			if p.name != obj.GetName() {
				continue
			}
			if uid := obj.GetUID(); uid != "" && uid != p.object().UID {
				return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, p.name, errors.New("another one has its name"))
			}
			w.audit.stops(c.l, p)
			w.end(p, 30*time.Second)
			return nil
		}
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, obj.GetName())
	})
}
