package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client reads and writes a Server. What nobody here uses of client.Client is missing.
type Client struct {
	client.Client
	Server *Server
}

// Get reads the newest version.
func (c *Client) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	id := identity{kindOf(obj), key.Namespace, key.Name}
	e := c.Server.objects[id]
	if e == nil {
		return notFound(id)
	}
	return Assign(obj, e.object)
}

// Assign copies an object into another of its type, or its metadata.
func Assign(to, from client.Object) error {
	if meta, ok := to.(*metav1.PartialObjectMetadata); ok {
		copied := reflect.ValueOf(from.DeepCopyObject()).Elem().FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
		meta.ObjectMeta = copied
		return nil
	}
	if reflect.TypeOf(to) != reflect.TypeOf(from) {
		return fmt.Errorf("%T cannot be read into %T", from, to)
	}
	gvk := to.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	to.GetObjectKind().SetGroupVersionKind(gvk)
	return nil
}

// List reads the objects of a kind as they are now, those of a namespace and with labels
// where that is asked for.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	var found []runtime.Object
	for _, obj := range c.Server.All(strings.TrimSuffix(kindOf(list), "List")) {
		if (o.Namespace == "" || o.Namespace == obj.GetNamespace()) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels()))) {
			found = append(found, obj.DeepCopyObject())
		}
	}
	if list, ok := list.(*metav1.PartialObjectMetadataList); ok {
		list.Items = make([]metav1.PartialObjectMetadata, len(found))
		for i := range found {
			if err := Assign(&list.Items[i], found[i].(client.Object)); err != nil {
				return err
			}
		}
		return nil
	}
	return meta.SetList(list, found)
}

// Create stores a new object.
func (c *Client) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	var o client.CreateOptions
	o.ApplyOptions(opts)
	s, id := c.Server, c.Server.identify(obj)
	if s.objects[id] != nil {
		return apierrors.NewAlreadyExists(resource(id.kind), id.name)
	}
	made := obj.DeepCopyObject().(client.Object)
	made.SetUID("")
	unobserved(made)
	content, err := treeOf(made)
	if err != nil {
		return err
	}
	if err := s.admit(made); err != nil || len(o.DryRun) > 0 {
		return err
	}
	s.add(id, made, []claim{{holder{manager: o.FieldManager}, keys(leaves(ownable(content)))}})
	return Assign(obj, made)
}

func keys(m map[string]any) map[string]bool {
	out := make(map[string]bool, len(m))
	for key := range m {
		out[key] = true
	}
	return out
}

func (s *Server) admit(obj client.Object) error {
	if err := valid(obj); err != nil || s.Admit == nil {
		return err
	}
	return s.Admit(obj)
}

// valid is all that is validated here: what server-side apply may leave over from others.
func valid(obj client.Object) error {
	d, ok := obj.(*appsv1.Deployment)
	if ok && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && d.Spec.Strategy.RollingUpdate != nil {
		return invalid(identity{"Deployment", d.Namespace, d.Name}, field.Forbidden(field.NewPath("spec", "strategy", "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
	}
	return nil
}

// Update replaces an object whole, but for its status.
func (c *Client) Update(_ context.Context, obj client.Object, opts ...client.UpdateOption) error {
	var o client.UpdateOptions
	o.ApplyOptions(opts)
	s, id := c.Server, c.Server.identify(obj)
	e := s.objects[id]
	if e == nil {
		return notFound(id)
	}
	if err := check(e, id, obj); err != nil {
		return err
	}
	next := obj.DeepCopyObject().(client.Object)
	keepStatus(e.object, next)
	next.SetDeletionTimestamp(e.object.GetDeletionTimestamp())
	claims := slices.DeleteFunc(slices.Clone(e.claims), func(c claim) bool {
		// Who takes an entry out of the list takes the claim away; who has no list knows
		// nothing of claims.
		return len(obj.GetManagedFields()) > 0 && !slices.ContainsFunc(obj.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == c.manager && m.Operation == c.operation() && m.Subresource == c.subresource
		})
	})
	return s.change(id, e, obj, next, claims, holder{manager: o.FieldManager})
}

// change stores what was made of an object by somebody who claims what differs, and
// answers with it.
func (s *Server) change(id identity, e *stored, answer, next client.Object, claims []claim, who holder) error {
	next.SetUID(e.object.GetUID())
	next.SetCreationTimestamp(e.object.GetCreationTimestamp())
	if tracked(id.kind) {
		before, err := e.tree()
		if err != nil {
			return err
		}
		after, err := treeOf(next)
		if err != nil {
			return err
		}
		set, gone := difference(leaves(ownable(before)), leaves(ownable(after)))
		claims = take(claims, who, set, gone)
	}
	return s.store(id, e, answer, next, claims)
}

// tracked reports whether anybody asks who wrote which fields of a kind.
func tracked(kind string) bool { return !custom(kind) && kind != "Pod" }

// difference are the paths whose values differ, and those that are gone.
func difference(before, after map[string]any) (set, gone map[string]bool) {
	set, gone = map[string]bool{}, map[string]bool{}
	for path, value := range after {
		if old, ok := before[path]; !ok || !reflect.DeepEqual(old, value) {
			set[path] = true
		}
	}
	for path := range before {
		if _, ok := after[path]; !ok {
			gone[path] = true
		}
	}
	return set, gone
}

// store stores a next version unless it is the same, and answers with what is stored.
func (s *Server) store(id identity, e *stored, answer, next client.Object, claims []claim) error {
	if err := unheld(e, id, next); err != nil {
		return err
	}
	if err := s.admit(next); err != nil {
		return err
	}
	if same(e, next, claims) {
		return Assign(answer, e.object)
	}
	s.replace(id, e, next, claims)
	return Assign(answer, next)
}

// Delete deletes an object, or has its finalizers hold it.
func (c *Client) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	s, id := c.Server, c.Server.identify(obj)
	e := s.objects[id]
	if e == nil {
		return notFound(id)
	}
	if p := o.Preconditions; p != nil {
		if err := precondition(e, id, *cmp.Or(p.UID, new(types.UID))); err != nil {
			return err
		}
		if err := current(e, id, *cmp.Or(p.ResourceVersion, new(string))); err != nil {
			return err
		}
	}
	next := e.object.DeepCopyObject().(client.Object)
	if p := o.PropagationPolicy; p != nil {
		next.SetFinalizers(collected(next.GetFinalizers(), *p))
	}
	if id.kind == "Pod" && (o.GracePeriodSeconds == nil || *o.GracePeriodSeconds > 0) {
		return errors.New("pods are not deleted gracefully here")
	}
	if len(next.GetFinalizers()) == 0 {
		if p := o.Preconditions; p != nil && p.ResourceVersion != nil && len(e.object.GetFinalizers()) > 0 {
			// It goes on with the version of an object that it has not updated, which is none
			// (registry.Store.Delete of k8s.io/apiserver 0.36.3).
			return conflict(id, "the version in the precondition does not match")
		}
		s.drop(id, e)
		return nil
	}
	if next.GetDeletionTimestamp() == nil {
		now := metav1.NewTime(s.Now().Truncate(time.Second))
		next.SetDeletionTimestamp(&now)
		next.SetDeletionGracePeriodSeconds(new(int64))
	}
	if !same(e, next, e.claims) {
		s.replace(id, e, next, e.claims)
	}
	return nil
}

// collected are the finalizers of an object whose dependents the garbage collector is to
// see to first.
func collected(finalizers []string, policy metav1.DeletionPropagation) []string {
	out := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		out = append(out, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}

// shallow is an object that shares all but its metadata's own fields with another.
func shallow(obj client.Object) client.Object {
	out := reflect.New(reflect.TypeOf(obj).Elem())
	out.Elem().Set(reflect.ValueOf(obj).Elem())
	return out.Interface().(client.Object)
}
