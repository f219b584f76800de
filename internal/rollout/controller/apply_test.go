package controller

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// TestDryRunIsFollowedUp looks again after the API server has been asked: in a fleet
// in which nothing moves no event calls for it, as after another controller took over.
func TestDryRunIsFollowedUp(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.observe(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.DryRunDeployment}}); err != nil {
		t.Fatal(err)
	}
	if o.lookAt.IsZero() || !r.dryRuns.get(o.dryRunKey()).Done {
		t.Error("nobody would look at the answer")
	}
}
