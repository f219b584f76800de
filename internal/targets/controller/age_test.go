package controller

import (
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
)

// TestDecisionsThatComeTooLate are told to users when one follows another, and not for one freeze.
func TestDecisionsThatComeTooLate(t *testing.T) {
	r := reconcilerOf(t, fakeapi.New(t))
	for i, c := range []struct {
		took  time.Duration
		tells bool
	}{{0, false}, {10 * time.Second, false}, {time.Minute, false}, {time.Minute, true}, {0, false}, {time.Minute, false}} {
		o := &observed{state: targets.State{Now: time.Now().Add(-c.took)}}
		d := targets.Decision{Groups: []targets.GroupPlan{{}}}
		r.date(t.Context(), o, &d)
		if late := c.took > 30*time.Second; d.Groups[0].Decided.IsZero() != late || (r.tooSlow != "") != c.tells {
			t.Errorf("the %dth: dated %s, told %q", i, d.Groups[0].Decided, r.tooSlow)
		}
	}
}
