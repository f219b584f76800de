package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSliceThatAnotherWroteStays: by an old look at its pods no slice is deleted that another controller has
// written since, which knows of others.
func TestSliceThatAnotherWroteStays(t *testing.T) {
	e := newEdge(t)
	before := e.pass()
	e.forget()
	o, err := e.r.look(t.Context(), e.set)
	e.must(err)
	for _, slice := range e.slices() {
		annotate(&slice, "written", "since")
		e.must(e.r.client.Update(t.Context(), &slice, client.FieldOwner("another")))
	}
	o.nodes[benchNode(0).Name].pods = nil
	if err := e.r.publish(t.Context(), o, o.published); !onepass.OnlyConflicts(err) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, e.published()); diff != "" {
		t.Error(diff)
	}
}
