package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failing is an API server that takes no patch of an object of a name.
type failing struct {
	client.Client
	name string
}

func (f failing) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if o.GetName() == f.name {
		return errors.New("down")
	}
	return f.Client.Patch(ctx, o, patch, opts...)
}

// TestRefusalEndsThoughOthersFail asks again about a template that was refused, also where something
// else fails in every pass.
func TestRefusalEndsThoughOthersFail(t *testing.T) {
	w := newWorld(0)
	for _, name := range []string{"n1", "n2"} {
		w.addNode(name, nil)
	}
	spec := specOfStories()
	// One is used up by the node that fails.
	spec.UpdateStrategy.RollingUpdate.MaxDegradedNodes = number(2)
	w.begin(spec)
	w.run(start.Add(time.Minute))
	w.refused["r2"] = true
	w.changeTemplate("r2")
	w.run(w.now.Add(time.Minute))
	r := w.leaders[0].r
	r.client = failing{r.client, theSet.Name + "-n3"}
	w.addNode("n3", nil)
	w.run(w.now.Add(time.Minute))
	if n := w.set().Status.UpdatedNodes; n != 0 {
		t.Fatalf("%d nodes have a template that is refused", n)
	}
	delete(w.refused, "r2")
	w.run(w.now.Add(5 * time.Minute))
	if n := w.set().Status.UpdatedNodes; n != 2 {
		t.Errorf("%d nodes have the template that is not refused any more", n)
	}
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
}
