package onepass

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var errConflict = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("outdated"))

// TestRetries: what fails again and again is tried after a pause that doubles up to a bound, and a conflict
// soon. What is due anyway waits for neither.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, refused := &Retries{}, errors.New("refused")
		after := func(due time.Duration, failed error) time.Duration {
			at := time.Time{}
			if due > 0 {
				at = time.Now().Add(due)
			}
			return Next(r.Again(t.Context(), at, failed)).RequeueAfter
		}
		for i, test := range []struct {
			due    time.Duration
			failed error
			want   time.Duration
		}{
			{0, nil, 0},
			{time.Minute, nil, time.Minute},
			{0, refused, retryPause},
			{0, refused, 2 * retryPause},
			{time.Minute, refused, 4 * retryPause},
			{time.Millisecond, refused, time.Millisecond},
			{0, refused, longestPause},
			{0, refused, longestPause},
			{0, errConflict, conflictPause},
			{0, refused, longestPause},
			{0, nil, 0},
			{0, refused, retryPause},
		} {
			if got := after(test.due, test.failed); got != test.want {
				t.Errorf("pass %d: the next is in %v, want %v", i, got, test.want)
			}
		}
		if got := Next(time.Now().Add(-time.Second)).RequeueAfter; got != time.Millisecond {
			t.Errorf("what is overdue comes in %v", got)
		}
	})
}

func TestEarliest(t *testing.T) {
	soon := time.Unix(1, 0)
	late := soon.Add(time.Second)
	for _, test := range [][3]time.Time{{soon, late, soon}, {late, soon, soon}, {{}, late, late}, {late, {}, late}, {{}, {}, {}}} {
		if got := Earliest(test[0], test[1]); !got.Equal(test[2]) {
			t.Errorf("of %v and %v it is %v", test[0], test[1], got)
		}
	}
}

func TestOnlyConflicts(t *testing.T) {
	wrapped := fmt.Errorf("writing: %w", errConflict)
	invalid := func(name string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", field.ErrorList{field.Invalid(field.NewPath("metadata", name), "x", "no")})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errConflict, true}, {wrapped, true}, {invalid("uid"), true}, {invalid("annotations"), false}, {errors.New("x"), false},
		{errors.Join(errConflict, wrapped), true}, {errors.Join(errors.Join(errConflict), wrapped), true}, {errors.Join(errConflict, errors.New("x")), false},
	} {
		if got := OnlyConflicts(c.err); got != c.want {
			t.Errorf("%v: got %t", c.err, got)
		}
	}
}
