package apiserver

import (
	"context"
	"errors"
	"slices"

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
