package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Status writes the status alone.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{Server: c.Server} }

type statusWriter struct {
	client.SubResourceWriter
	Server *Server
}

func (w statusWriter) Update(_ context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	var o client.SubResourceUpdateOptions
	o.ApplyOptions(opts)
	s, id := w.Server, w.Server.identify(obj)
	e := s.objects[id]
	if e == nil {
		return notFound(id)
	}
	if err := check(e, id, obj); err != nil {
		return err
	}
	next := shallow(e.object)
	if !keepStatus(obj.DeepCopyObject().(client.Object), next) {
		return errors.New("the kind has no status here")
	}
	claims := e.claims
	if tracked(id.kind) {
		claims = take(slices.Clone(claims), holder{manager: o.FieldManager, subresource: "status"}, map[string]bool{"status": true}, nil)
	}
	return s.store(id, e, obj, next, claims)
}

// Patch does strategic merge patches of conditions, which are merged by their types; of
// a status nobody here patches anything else.
func (w statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	s, id := w.Server, w.Server.identify(obj)
	e := s.objects[id]
	if e == nil {
		return notFound(id)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	if patch.Type() != types.StrategicMergePatchType {
		return fmt.Errorf("%s of a status is not known here", patch.Type())
	}
	var delta struct {
		Metadata struct{ UID, ResourceVersion string }
		Status   struct{ Conditions []json.RawMessage }
	}
	if err := json.Unmarshal(data, &delta); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := current(e, id, delta.Metadata.ResourceVersion); err != nil {
		return err
	}
	if err := unchanged(e, id, types.UID(delta.Metadata.UID)); err != nil {
		return err
	}
	next := e.object.DeepCopyObject().(client.Object)
	switch o := next.(type) {
	case *corev1.Node:
		o.Status.Conditions, err = mergedConditions(o.Status.Conditions, delta.Status.Conditions, func(c corev1.NodeCondition) string { return string(c.Type) })
	case *corev1.Pod:
		o.Status.Conditions, err = mergedConditions(o.Status.Conditions, delta.Status.Conditions, func(c corev1.PodCondition) string { return string(c.Type) })
	default:
		return errors.New("the kind's status is not patched here")
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return s.store(id, e, obj, next, e.claims)
}

// mergedConditions are those of before, with those of a patch over them by type.
func mergedConditions[T any](before []T, patch []json.RawMessage, kind func(T) string) ([]T, error) {
	out := slices.Clone(before)
	for _, raw := range patch {
		var next T
		if err := json.Unmarshal(raw, &next); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(out, func(c T) bool { return kind(c) == kind(next) })
		if at < 0 {
			out = append(out, next)
			continue
		}
		if err := json.Unmarshal(raw, &out[at]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
