package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// TestWhatIsNotDueIsNotTriedAgain: a write that failed calls for a pass when it may be tried
// again, and for no other where that pass has nothing to write any more.
func TestWhatIsNotDueIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ref := newWrites(func() {}), targets.Ref{Name: "a"}
		there := map[targets.Ref]bool{ref: true}
		w.begin(t.Context(), ref, func(context.Context) error { return errors.New("refused") })
		synctest.Wait()
		w.keep(there)
		if at := w.next(); !at.Equal(time.Now().Add(firstRetry)) {
			t.Errorf("it is tried again at %s", at)
		}
		time.Sleep(firstRetry)
		w.keep(there)
		if at := w.next(); !at.IsZero() {
			t.Errorf("what is not due any more is tried again at %s", at)
		}
	})
}
