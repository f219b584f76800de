package controller

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/recorded"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	w.addNode("n", nil)
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
		w.bad[write.Revision] = !recorded.Ready(write.Revision)
		if d := w.deployments["n"]; d != nil {
			w.rewrite(d, func(api *appsv1.Deployment) { api.Spec = asWritten(write) })
		} else {
			w.must(w.user("kubectl").Create(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: theSet.Namespace, Name: "d", Annotations: map[string]string{v1alpha1.AnnotationNode: "n"}},
				Spec:       asWritten(write),
			}, client.FieldOwner("kubectl")))
		}
		w.run(w.now.Add(time.Minute))
		write.Sets = got
		out = append(out, write)
	}
	return out
}

// asWritten is the spec of the Deployment after a write of the recording.
func asWritten(write recorded.Write) appsv1.DeploymentSpec {
	template := templateOf(write.Revision)
	template.Labels[v1alpha1.LabelRevision] = write.Revision
	return appsv1.DeploymentSpec{
		Replicas: &write.Replicas, Paused: write.Paused, Template: template, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "proxy"}},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: number(int(write.Surge)), MaxUnavailable: number(int(write.Unavailable)),
		}},
	}
}
