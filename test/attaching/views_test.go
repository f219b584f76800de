package attaching

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are those that the two controllers watch.
var kinds = []string{"Node", "Pod", "Service", "IngressDaemonSet", "ControllerRevision", "TargetGroupAttachment", "Attachment"}

// usualLag is how late an event comes at most where nothing is wrong with its watch.
const usualLag = 100 * time.Millisecond

// view is what a leader's cache holds of one kind. Its watch brings every change, in
// order, but late; those of other kinds are late by themselves, so that there never was a
// moment at which all was as a leader sees it.
type view struct {
	l    *leader
	kind string
	held map[string]client.Object
	// coming are changes under way, each with when it comes; came are the latest that
	// did, by when they happened.
	coming []coming
	came   []coming
	// lag is how late changes are where that is not drawn anew for each.
	lag time.Duration
}

type coming struct {
	change
	due time.Time
}

// openViews lists all kinds as they were a while ago; what happened since comes late.
func (l *leader) openViews(stale time.Duration) {
	l.views = map[string]*view{}
	asOf := time.Now().Add(-stale)
	for _, kind := range kinds {
		v := &view{l: l, kind: kind, held: map[string]client.Object{}}
		l.views[kind] = v
		for _, o := range l.w.api.All(kind) {
			v.keep(o)
		}
		var since []change
		for _, c := range slices.Backward(l.w.changes) {
			if c.at.Before(asOf) {
				break
			}
			if kindOf(c) != kind {
				continue
			}
			since = append(since, c)
			if c.before != nil {
				v.keep(c.before)
			} else {
				delete(v.held, c.after.GetName())
			}
		}
		slices.Reverse(since)
		v.openLate(stale)
		for _, c := range since {
			v.hears(c)
		}
	}
}

// openLate has a watch that begins with a stale list go on late for a while, whatever those of
// other kinds do.
func (v *view) openLate(stale time.Duration) {
	if stale == 0 {
		return
	}
	r := v.l.w.dice("%s opens %s", v.l.name, v.kind)
	if r.IntN(2) == 0 {
		return
	}
	v.lag = between(r, 0, time.Minute)
	v.l.w.after(between(r, 0, 2*time.Minute), func() { v.lag = 0 })
}

func kindOf(c change) string {
	o := c.after
	if o == nil {
		o = c.before
	}
	name := fmt.Sprintf("%T", o)
	return name[strings.LastIndex(name, ".")+1:]
}

// keep holds an object as the leader's clock sees it.
func (v *view) keep(o client.Object) {
	v.held[o.GetName()] = shifted(o.DeepCopyObject().(client.Object), -v.l.skew)
}

// shifted moves the times in an object that somebody decides by.
func shifted(o client.Object, by time.Duration) client.Object {
	if by == 0 {
		return o
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		o.SetDeletionTimestamp(new(metav1.NewTime(at.Add(by))))
	}
	switch o := o.(type) {
	case *v1alpha1.TargetGroupAttachment:
		shiftGroups(o.Status.Groups, by)
	case *v1alpha1.Attachment:
		shiftGroups(o.Status.Groups, by)
	}
	return o
}

func shiftGroups(groups []v1alpha1.AttachedGroup, by time.Duration) {
	for i := range groups {
		for j := range groups[i].Leaving {
			for _, at := range []**metav1.Time{&groups[i].Leaving[j].LeftAt, &groups[i].Leaving[j].QuietAt} {
				if *at != nil {
					*at = new(metav1.NewTime((*at).Add(by)))
				}
			}
		}
	}
}

// hears sends a change on its way to the leader.
func (l *leader) hears(before, after client.Object) {
	c := change{time.Now(), before, after}
	if v := l.views[kindOf(c)]; v != nil {
		v.hears(c)
	}
}

func (v *view) hears(c change) {
	lag := between(v.l.w.dice("%s hears of %s", v.l.name, v.kind), 5*time.Millisecond, usualLag)
	due := time.Now().Add(max(v.lag, lag))
	if n := len(v.coming); n > 0 && !due.After(v.coming[n-1].due) {
		due = v.coming[n-1].due.Add(1)
	}
	v.coming = append(v.coming, coming{c, due})
	v.l.w.after(time.Until(due), v.comes)
}

// comes takes over what has arrived, unless the process is frozen.
func (v *view) comes() {
	if v.l.thaw != nil || v.l.gone {
		return
	}
	now, any := time.Now(), false
	for len(v.coming) > 0 && !v.coming[0].due.After(now) {
		c := v.coming[0]
		v.coming, any = v.coming[1:], true
		v.came = append(v.came, coming{c.change, now})
		if c.after == nil {
			delete(v.held, c.before.GetName())
		} else {
			v.keep(c.after)
		}
	}
	for len(v.came) > 0 && now.Sub(v.came[0].due) > decidedBy {
		v.came = v.came[1:]
	}
	if !any {
		return
	}
	v.l.targets.trigger()
	if v.kind == "Node" || v.kind == "Attachment" {
		v.l.detach.trigger()
	}
}

// decidedBy is how long ago a call can have been decided that is sent now.
const decidedBy = 8 * time.Second

// asOf is since when there is something that what the leader does now may have been
// decided without, because its watches lag.
func (l *leader) asOf() time.Time {
	at := time.Now().Add(-decidedBy)
	for _, kind := range kinds {
		v := l.views[kind]
		for _, c := range v.coming {
			if l.lostAt.IsZero() && c.at.Before(at) {
				at = c.at
			}
		}
		for _, c := range v.came {
			if c.at.Before(at) && time.Since(c.due) < decidedBy {
				at = c.at
			}
		}
	}
	return at
}

// shows reports whether a leader sees a pod with an address on a node.
func (l *leader) shows(address, node string) bool {
	for _, o := range l.views["Pod"].held {
		if pod := o.(*corev1.Pod); pod.Status.PodIP == address && pod.Spec.NodeName == node {
			return true
		}
	}
	return false
}

// cachedClient reads what the views hold, and writes to the API server.
type cachedClient struct {
	client.Client
	l *leader
}

// Get reads the cache.
func (c *cachedClient) Get(_ context.Context, key client.ObjectKey, to client.Object, _ ...client.GetOption) error {
	c.l.thawed()
	c.l.w.mu.Lock()
	defer c.l.w.mu.Unlock()
	kind := reflect.TypeOf(to).Elem().Name()
	held := c.l.views[kind].held[key.Name]
	if held == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	return apiserver.Assign(to, held)
}

// List reads the cache.
func (c *cachedClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.l.thawed()
	c.l.w.mu.Lock()
	defer c.l.w.mu.Unlock()
	var o client.ListOptions
	o.ApplyOptions(opts)
	of := func(kind string) []client.Object {
		var out []client.Object
		held := c.l.views[kind].held
		for _, name := range sortedKeys(held) {
			if o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(held[name].GetLabels())) {
				out = append(out, held[name])
			}
		}
		return out
	}
	switch list := list.(type) {
	case *corev1.NodeList:
		for _, h := range of("Node") {
			list.Items = append(list.Items, *h.(*corev1.Node))
		}
	case *corev1.PodList:
		for _, h := range of("Pod") {
			list.Items = append(list.Items, *h.(*corev1.Pod))
		}
	case *v1alpha1.IngressDaemonSetList:
		for _, h := range of("IngressDaemonSet") {
			list.Items = append(list.Items, *h.(*v1alpha1.IngressDaemonSet))
		}
	case *appsv1.ControllerRevisionList:
		for _, h := range of("ControllerRevision") {
			list.Items = append(list.Items, *h.(*appsv1.ControllerRevision))
		}
	case *v1alpha1.AttachmentList:
		for _, h := range of("Attachment") {
			list.Items = append(list.Items, *h.DeepCopyObject().(*v1alpha1.Attachment))
		}
	case *v1alpha1.TargetGroupAttachmentList:
		for _, h := range of("TargetGroupAttachment") {
			list.Items = append(list.Items, *h.DeepCopyObject().(*v1alpha1.TargetGroupAttachment))
		}
	default:
		return fmt.Errorf("%T is not listed here", list)
	}
	return nil
}

func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// liveReader reads past the cache.
type liveReader struct{ l *leader }

func (r *liveReader) server(what string) (*apiserver.Client, error) {
	r.l.thawed()
	if err := r.l.alive(); err != nil {
		return nil, err
	}
	r.l.w.mu.Lock()
	d := between(r.l.w.dice("%s reads %s", r.l.name, what), time.Millisecond, 20*time.Millisecond)
	r.l.w.mu.Unlock()
	if !r.l.w.wait(r.l.running, d) {
		return nil, errGone
	}
	return &apiserver.Client{Server: r.l.w.api}, nil
}

func (r *liveReader) Get(ctx context.Context, key client.ObjectKey, to client.Object, opts ...client.GetOption) error {
	server, err := r.server(fmt.Sprintf("%T %s", to, key))
	if err != nil {
		return err
	}
	r.l.w.mu.Lock()
	defer r.l.w.mu.Unlock()
	if err := server.Get(ctx, key, to, opts...); err != nil {
		return err
	}
	shifted(to, -r.l.skew)
	return nil
}

func (r *liveReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*unstructured.UnstructuredList); ok {
		return &meta.NoKindMatchError{}
	}
	server, err := r.server(fmt.Sprintf("%T", list))
	if err != nil {
		return err
	}
	r.l.w.mu.Lock()
	defer r.l.w.mu.Unlock()
	if err := server.List(ctx, list, opts...); err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	if pods, ok := list.(*corev1.PodList); ok && o.FieldSelector != nil {
		node, _ := o.FieldSelector.RequiresExactMatch("spec.nodeName")
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node })
	}
	return nil
}
