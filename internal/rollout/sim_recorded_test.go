package rollout

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/recorded"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestRecorded holds the fakes of the Deployment and the ReplicaSet controller
// against what the real ones did. How fast pods become ready differs from run to
// run, there and here: one of many runs must do exactly the same.
func TestRecorded(t *testing.T) {
	recordings, err := recorded.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recordings {
		t.Run(r.Name, func(t *testing.T) {
			diff := ""
			for seed := range int64(200) {
				if diff = cmp.Diff(r.Writes, replay(r, seed)); diff == "" {
					return
				}
			}
			t.Errorf("%s (-real +fake)\n%s", r.About, diff)
		})
	}
}

// replay is the recording as the fakes would have made it.
func replay(r recorded.Recording, seed int64) []recorded.Write {
	w := newWorld(seed)
	w.leaders = nil
	w.addNode("n", nil)
	d := &simDeployment{node: "n", uid: 1}
	w.deployments["n"] = d
	sizes := recorded.Sizes{}
	var got []recorded.Sizes
	w.story = func(actor, what string) {
		var size, before int32
		var revision string
		if n, _ := fmt.Sscanf(what, "n: %d pods of %s instead of %d", &size, &revision, &before); actor != "deployment controller" || n != 3 {
			return
		}
		sizes[revision] = size
		maps.DeleteFunc(sizes, func(_ string, size int32) bool { return size == 0 })
		got = append(got, maps.Clone(sizes))
	}
	var out []recorded.Write
	for _, write := range r.Writes {
		got = nil
		d.revision, d.replicas, d.paused = write.Revision, write.Replicas, write.Paused
		d.surge, d.unavail = intstr.FromInt32(write.Surge), intstr.FromInt32(write.Unavailable)
		w.bad[write.Revision] = !recorded.Ready(write.Revision)
		w.write(d, true)
		w.run(w.now.Add(time.Minute))
		write.Sets = got
		out = append(out, write)
	}
	return out
}
