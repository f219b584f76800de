// Package apiserver is an API server in memory, for tests: as much of one as the
// controllers and those around them need, and no more. It keeps typed objects with
// resourceVersion, generation, UID, deletionTimestamp and finalizers, refuses what is
// outdated, and does server-side apply on fields, lists as a whole. It knows no defaults
// but that of our statuses, and validates next to nothing. test/apiserver plays the same
// writes against a real one.
//
// It is not safe for concurrent use, and objects that it hands to Changed are its own
// and must not be changed.
package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server is the API server.
type Server struct {
	// Now is its clock.
	Now func() time.Time
	// Changed is told of each write, when it is certain and before it can be read: what
	// was there before, nil for a new object, and what is there now, nil for none.
	Changed func(before, after client.Object)
	// Admit, where there is one, may refuse what is written.
	Admit func(obj client.Object) error

	scheme  *runtime.Scheme
	version int64
	uids    int
	objects map[identity]*stored
}

type identity struct{ kind, namespace, name string }

// stored is an object with who has applied or written which of its fields.
type stored struct {
	object client.Object
	claims []claim
	// content is the object as a tree, nil until it is asked for.
	content map[string]any
	// defaulted is that the status was never stored: each reader is given the default of
	// its definition, and the first write stores that, even where it changes nothing else.
	defaulted bool
}

// New has no objects yet. Times are the real ones unless Now is set.
func New(scheme *runtime.Scheme) *Server {
	return &Server{Now: time.Now, Changed: func(_, _ client.Object) {}, scheme: scheme, objects: map[identity]*stored{}}
}

// All are the objects of a kind, in order of their names.
func (s *Server) All(kind string) []client.Object {
	var ids []identity
	for id := range s.objects {
		if id.kind == kind {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b identity) int {
		return cmpStrings(a.namespace, b.namespace, a.name, b.name)
	})
	out := make([]client.Object, 0, len(ids))
	for _, id := range ids {
		out = append(out, s.objects[id].object)
	}
	return out
}

func cmpStrings(a1, b1, a2, b2 string) int {
	switch {
	case a1 < b1, a1 == b1 && a2 < b2:
		return -1
	case a1 == b1 && a2 == b2:
		return 0
	}
	return 1
}

// Find is an object, nil where it is not there.
func (s *Server) Find(kind, namespace, name string) client.Object {
	if e := s.objects[identity{kind, namespace, name}]; e != nil {
		return e.object
	}
	return nil
}

// Put stores an object as it is, as somebody does whose claims to fields nobody asks
// about, such as a kubelet: the object gets a resourceVersion, and where it is new a UID
// and the time. Its generation stays.
func (s *Server) Put(obj client.Object) {
	id := s.identify(obj)
	e := s.objects[id]
	if e == nil {
		s.add(id, obj, nil)
		return
	}
	obj.SetGeneration(e.object.GetGeneration())
	s.put(id, e, obj, e.claims)
}

// Remove takes an object away, whatever its finalizers say.
func (s *Server) Remove(kind, namespace, name string) {
	id := identity{kind, namespace, name}
	if e := s.objects[id]; e != nil {
		s.drop(id, e)
	}
}

func (s *Server) identify(obj client.Object) identity {
	return identity{kindOf(obj), obj.GetNamespace(), obj.GetName()}
}

func kindOf(obj runtime.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(obj).Elem().Name()
}

func (s *Server) drop(id identity, e *stored) {
	s.version++
	s.Changed(e.object, nil)
	delete(s.objects, id)
}

// add stores a new object.
func (s *Server) add(id identity, obj client.Object, claims []claim) {
	s.uids++
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	}
	obj.SetCreationTimestamp(metav1.NewTime(s.Now().Truncate(time.Second)))
	if counts(id.kind) {
		obj.SetGeneration(1)
	}
	s.stamp(obj)
	e := &stored{object: obj, defaulted: custom(id.kind)}
	e.claim(claims)
	s.Changed(nil, obj)
	s.objects[id] = e
}

// replace stores a new version of an object, or takes it away where it was to be
// deleted and nothing holds it any more.
func (s *Server) replace(id identity, e *stored, obj client.Object, claims []claim) {
	before := e.object
	obj.SetUID(before.GetUID())
	obj.SetCreationTimestamp(before.GetCreationTimestamp())
	obj.SetGeneration(before.GetGeneration())
	if counts(id.kind) && moves(before, obj) {
		obj.SetGeneration(before.GetGeneration() + 1)
	}
	s.put(id, e, obj, claims)
}

func (s *Server) put(id identity, e *stored, obj client.Object, claims []claim) {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && id.kind != "Pod" {
		s.drop(id, e)
		return
	}
	s.stamp(obj)
	after := &stored{object: obj}
	after.claim(claims)
	s.Changed(e.object, obj)
	s.objects[id] = after
}

func (s *Server) stamp(obj client.Object) {
	s.version++
	obj.SetResourceVersion(strconv.FormatInt(s.version, 10))
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
}

// same reports whether a write would change nothing.
func same(e *stored, obj client.Object, claims []claim) bool {
	obj.SetResourceVersion(e.object.GetResourceVersion())
	obj.SetGeneration(e.object.GetGeneration())
	obj.SetManagedFields(e.object.GetManagedFields())
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return !e.defaulted && slices.EqualFunc(e.claims, claims, func(a, b claim) bool {
		return a.holder == b.holder && maps.Equal(a.fields, b.fields)
	}) && equality.Semantic.DeepEqual(e.object, obj)
}

// check compares what a writer takes for granted with what is there.
func check(e *stored, id identity, obj client.Object) error {
	if err := precondition(e, id, obj.GetUID()); err != nil {
		return err
	}
	if obj.GetResourceVersion() == "" && custom(id.kind) {
		// Built-in kinds can be written whatever they are.
		return invalid(id, field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"))
	}
	return current(e, id, obj.GetResourceVersion())
}

func precondition(e *stored, id identity, uid types.UID) error {
	if uid != "" && uid != e.object.GetUID() {
		return conflict(id, "the UID in the precondition (%s) is not that of the object (%s)", uid, e.object.GetUID())
	}
	return nil
}

// current reports whether a writer has seen the newest version, or does not say which.
func current(e *stored, id identity, version string) error {
	if version != "" && version != e.object.GetResourceVersion() {
		return conflict(id, "the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

// unchanged is how a patch is guarded by UID: to the API server it would change that.
func unchanged(e *stored, id identity, uid types.UID) error {
	if e == nil || uid == "" || uid == e.object.GetUID() {
		return nil
	}
	return invalid(id, field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"))
}

// unheld is that nobody holds up a deletion that is under way already.
func unheld(e *stored, id identity, next client.Object) error {
	if e.object.GetDeletionTimestamp() == nil {
		return nil
	}
	for _, f := range next.GetFinalizers() {
		if !slices.Contains(e.object.GetFinalizers(), f) {
			return invalid(id, field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"))
		}
	}
	return nil
}

func invalid(id identity, err *field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: groups[id.kind], Kind: id.kind}, id.name, field.ErrorList{err})
}

func conflict(id identity, format string, args ...any) error {
	return apierrors.NewConflict(resource(id.kind), id.name, fmt.Errorf(format, args...))
}

func notFound(id identity) error { return apierrors.NewNotFound(resource(id.kind), id.name) }

// resource is what a kind is called in errors.
func resource(kind string) schema.GroupResource {
	gvk := schema.GroupVersionKind{Group: groups[kind], Kind: kind, Version: "v1"}
	plural := fmt.Sprintf("%ss", gvk.Kind)
	return schema.GroupResource{Group: gvk.Group, Resource: lower(plural)}
}
