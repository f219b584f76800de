package rollout

import (
	"math"
	"testing"
)

// TestSurgeBeside: the surge with which a paused Deployment takes no pod of the older
// ReplicaSet, by hand after sync.go of the Deployment controller.
func TestSurgeBeside(t *testing.T) {
	for _, test := range []struct {
		replicas, surge int32
		present         int32
		others          []int32
		want            int32
	}{
		{3, 0, 1, []int32{1}, 0},                                 // 2 and 1 become 1 and 1
		{3, 1, 1, []int32{2}, 1},                                 // of 2 and 2 the elder would lose one
		{3, 1, 0, []int32{2}, 2},                                 // so it would where none of the 2 runs
		{3, 1, 2, []int32{1}, 0},                                 // 3 and 1 become 2 and 1
		{4, 1, 2, []int32{2}, 0},                                 // 3 and 2 become 2 and 2
		{6, 3, 3, []int32{3}, 2},                                 // 6 and 3 would become 4 and 2
		{6, 2, 3, []int32{3}, 1},                                 // 5 and 3 would become 4 and 2
		{3, 0, 0, []int32{3}, 0},                                 // there is none to take
		{3, 1, 1, []int32{1, 1}, 0},                              // 2, 1 and 1 become 1, 1 and 1
		{3, 1, 0, []int32{1, 2}, 1},                              // 1, 1 and 2 would become 1, 1 and 1
		{math.MaxInt32 - 1, 1, 1, []int32{1}, math.MaxInt32 - 2}, // nobody reckons that
	} {
		d := &Deployment{Replicas: test.replicas, Surge: test.surge}
		if got := d.surgeBeside(test.present, test.others); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
