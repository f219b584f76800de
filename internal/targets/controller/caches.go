package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// lookAgain is after how long a cache that is behind is compared again, and tellAfter for how
	// long one is so before that is told to users.
	lookAgain = time.Second
	tellAfter = 15 * time.Second
	// livePage is how much is listed live at once.
	livePage = 500
	// gone is in place of the version of an object that a cache shows, and the API server does not.
	gone = ""
	// allAttachments names the cache of all TargetGroupAttachments, allNodeAttachments that of all
	// Attachments, allNodes that of all Nodes. No namespace is called so.
	allAttachments, allNodeAttachments, allNodes = "*", "*nodes", ""
)

// caches are those of pods, by namespace, that of Nodes, and those of TargetGroupAttachments and of
// Attachments. Each kind's watch lags by itself, so that a status may name a target that another
// leader registered while its pod is not there yet. A cache is compared once with what the API
// server has, where something is missing in it: all that is recorded thereafter by this process it
// has shown.
type caches struct {
	cached, live client.Reader
	// trigger calls for another pass.
	trigger func()

	mu sync.Mutex
	// looking are those that are being compared, current those that are not behind.
	looking, current map[string]bool
	// late says why one has been behind for longer than tellAfter.
	late map[string]string
}

func newCaches(cached, live client.Reader, trigger func()) *caches {
	return &caches{cached: cached, live: live, trigger: trigger, looking: map[string]bool{}, current: map[string]bool{}, late: map[string]string{}}
}

// cacheOf names the one that shows what a TargetGroupAttachment selects.
func cacheOf(a *v1alpha1.TargetGroupAttachment) string {
	if a.Spec.NodeSelector != nil {
		return allNodes
	}
	return a.Namespace
}

// behind reports whether a cache may not show all yet.
func (c *caches) behind(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.current[name]
}

// isLate says why a cache has been behind for long, empty where none is.
func (c *caches) isLate(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late[name]
}

// tell has it told why a cache is behind, and is called for a pass where that is news.
func (c *caches) tell(name, why string) {
	c.mu.Lock()
	news := c.late[name] != why
	c.late[name] = why
	c.mu.Unlock()
	if news {
		c.trigger()
	}
}

// catchUp compares a cache, in the background, until it is not behind, and calls for a pass then.
func (c *caches) catchUp(ctx context.Context, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looking[name] || c.current[name] {
		return
	}
	c.looking[name] = true
	go func() {
		if !c.compare(ctx, name) {
			return
		}
		c.mu.Lock()
		c.current[name] = true
		delete(c.late, name)
		c.mu.Unlock()
		c.trigger()
	}()
}

// compare returns when a cache shows all that the API server had when that was first asked for, or
// when it is to end before: what comes and goes meanwhile, in a namespace that never rests, is
// not waited for. It tells of each other error once, since what is not believed meanwhile waits:
// without the TargetGroupAttachments and Attachments every call.
func (c *caches) compare(ctx context.Context, name string) bool {
	began := time.Now()
	var missing map[types.UID]string
	for told := ""; ; {
		left, err := c.missing(ctx, name, missing)
		if err == nil {
			if missing = left; len(missing) == 0 {
				return true
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			log.FromContext(ctx).Error(err, "comparing a cache with what the API server has failed, and targets wait for it", "cache", name)
		}
		switch {
		case time.Since(began) < tellAfter:
		case err != nil:
			c.tell(name, "comparing with the API server fails: "+err.Error())
		default:
			c.tell(name, "the API server has what has not come by the watch")
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false
		}
	}
}

// missing are the objects that a cache does not show as they are yet, with their versions, or none where it
// shows what is gone: of those that were missing before, or of all where nothing was asked before (nil).
func (c *caches) missing(ctx context.Context, name string, before map[types.UID]string) (map[types.UID]string, error) {
	kind, cached, namespace := corev1.SchemeGroupVersion.WithKind("PodList"), client.ObjectList(&corev1.PodList{}), name
	switch name {
	case allNodes:
		kind.Kind, cached = "NodeList", &corev1.NodeList{}
	case allAttachments:
		kind, cached, namespace = v1alpha1.GroupVersion.WithKind("TargetGroupAttachmentList"), &v1alpha1.TargetGroupAttachmentList{}, ""
	case allNodeAttachments:
		kind, cached, namespace = v1alpha1.GroupVersion.WithKind("AttachmentList"), &v1alpha1.AttachmentList{}, ""
	}
	live, err := c.listLive(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	if err := c.cached.List(ctx, cached, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing from the cache: %w", err)
	}
	shown := versionsOf(cached)
	left := maps.Clone(before)
	if before == nil {
		left = maps.Clone(live)
		for uid := range shown {
			if _, there := live[uid]; !there {
				left[uid] = gone
			}
		}
	}
	maps.DeleteFunc(left, func(uid types.UID, version string) bool {
		_, there := live[uid]
		has, known := shown[uid]
		if !there {
			return !known
		}
		return version == gone || known && !older(has, version)
	})
	return left, nil
}

// listLive are the versions of all objects of a kind in a namespace.
func (c *caches) listLive(ctx context.Context, kind schema.GroupVersionKind, namespace string) (map[types.UID]string, error) {
	all := map[types.UID]string{}
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := c.live.List(ctx, list, client.InNamespace(namespace), client.Limit(livePage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing live: %w", err)
		}
		for i := range list.Items {
			all[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

func versionsOf(list client.ObjectList) map[types.UID]string {
	out := map[types.UID]string{}
	switch list := list.(type) {
	case *corev1.PodList:
		for i := range list.Items {
			out[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
	case *corev1.NodeList:
		for i := range list.Items {
			out[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
	case *v1alpha1.TargetGroupAttachmentList:
		for i := range list.Items {
			out[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
	case *v1alpha1.AttachmentList:
		for i := range list.Items {
			out[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
	}
	return out
}

// older reports whether a version is of before another one, or may be.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return version != than && (err != nil || order < 0)
}
