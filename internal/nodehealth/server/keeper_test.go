package server

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// TestEachMarkIsStoredBeforeItIsRepeated, also one that follows another: a checker that
// starts again would repeat the mark of before.
func TestEachMarkIsStoredBeforeItIsRepeated(t *testing.T) {
	kept := 0
	k := newKeeper(stateFile{dir: t.TempDir(), log: quiet}, serving(), func() { kept++ })
	for i, step := range []struct {
		state nodehealth.State
		lacks bool
		// kept is how often it was told by now that a mark is stored.
		kept int
	}{
		{marked("a"), true, 1},
		{marked("a"), false, 1},
		{marked("b"), true, 2},
		{serving(), false, 2},
		{marked("b"), true, 3},
	} {
		if got := k.lacks(step.state); got != step.lacks {
			t.Errorf("step %d: lacks it: %t", i, got)
		}
		k.keep(step.state)
		if !k.store() || k.lacks(step.state) || kept != step.kept {
			t.Errorf("step %d: when it is stored, lacks it: %t, told %d times", i, k.lacks(step.state), kept)
		}
	}
	if nowhere := newKeeper(stateFile{log: quiet}, serving(), nil); nowhere.lacks(marked("a")) {
		t.Error("a mark waits that is stored nowhere")
	}
}
