package rollout

import "testing"

// TestSurgeBeside: the surge with which a paused Deployment takes no pod of the older
// ReplicaSet, by hand after sync.go of the Deployment controller.
func TestSurgeBeside(t *testing.T) {
	for _, test := range []struct {
		older, present, replicas, surge int32
		want                            int32
	}{
		{1, 1, 3, 0, 0}, // 1 and 2 become 1 and 1
		{2, 1, 3, 1, 1}, // of 2 and 2 the elder would lose one
		{2, 0, 3, 1, 2}, // so it would where none of the 2 runs
		{1, 2, 3, 1, 0}, // 1 and 3 become 1 and 2
		{2, 2, 4, 1, 0}, // 2 and 3 become 2 and 2
		{3, 3, 6, 3, 2}, // 3 and 6 would become 2 and 4
		{3, 3, 6, 2, 1}, // 3 and 5 would become 2 and 4
		{3, 0, 3, 0, 0}, // there is none to take
	} {
		d := &Deployment{Replicas: test.replicas, Surge: test.surge}
		if got := d.surgeBeside(test.older, test.present); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
