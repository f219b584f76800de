package controller

import (
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/recorded"
)

var record = flag.Bool("record", false, "write down anew what the real Deployment controller does")

// TestRecorded compares what the real Deployment controller does with the
// recordings that the fakes of the simulation are held against: where each write
// ends. On the way there, pods become ready now sooner and now later.
func TestRecorded(t *testing.T) {
	t.Parallel()
	recordings, err := recorded.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recordings {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			got := recordDeployment(t, r)
			if *record {
				writeRecording(t, got)
				return
			}
			if diff := cmp.Diff(ends(r), ends(got)); diff != "" {
				t.Errorf("the real Deployment controller does something else now (-recorded +now); if that is right, run with -record\n%s", diff)
			}
		})
	}
}

// ends are the sizes that each write ended with.
func ends(r recorded.Recording) []recorded.Sizes {
	var out []recorded.Sizes
	for _, w := range r.Writes {
		if len(w.Sets) > 0 {
			out = append(out, w.Sets[len(w.Sets)-1])
		} else {
			out = append(out, nil)
		}
	}
	return out
}

func writeRecording(t *testing.T, r recorded.Recording) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "..", recorded.Dir, r.Name+".json")
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordDeployment carries out the writes of a recording, and gives it with what
// happened to the ReplicaSets.
func recordDeployment(t *testing.T, r recorded.Recording) recorded.Recording {
	f := newFixture(t, 1)
	watching, err := api.Watch(t.Context(), &appsv1.ReplicaSetList{}, client.InNamespace(f.ns))
	f.must(err)
	defer watching.Stop()
	sizes := recorded.Sizes{}
	out := recorded.Recording{Name: r.Name, About: r.About}
	for i, write := range r.Writes {
		f.write(i == 0, write)
		write.Sets = changes(t.Context(), watching, sizes, ends(r)[i])
		out.Writes = append(out.Writes, write)
	}
	return out
}

// write writes the Deployment, the first time as a new one.
func (f *fixture) write(first bool, w recorded.Write) {
	f.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "recorded"}}
	if first {
		f.shape(d, w)
		f.must(api.Create(f.Context(), d))
		return
	}
	f.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := api.Get(f.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		f.shape(d, w)
		return api.Update(f.Context(), d)
	}))
}

func (f *fixture) shape(d *appsv1.Deployment, w recorded.Write) {
	labels := map[string]string{"app": "recorded"}
	node := f.nodes[0]
	if !recorded.Ready(w.Revision) {
		node = "nowhere"
	}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &w.Replicas, Paused: w.Paused, RevisionHistoryLimit: new(int32(10)),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: new(intstr.FromInt32(w.Surge)), MaxUnavailable: new(intstr.FromInt32(w.Unavailable)),
			},
		},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "recorded", "revision": w.Revision}},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none"}},
			},
		},
	}
}

// changes follows the ReplicaSets until none has changed for a while, a shorter one
// where they are what is expected in the end.
func changes(ctx context.Context, w watch.Interface, sizes, expected recorded.Sizes) []recorded.Sizes {
	var out []recorded.Sizes
	for {
		quiet := 8 * time.Second
		if !*record && maps.Equal(sizes, expected) {
			quiet = 2 * time.Second
		}
		select {
		case <-ctx.Done():
			return out
		case <-time.After(quiet):
			return out
		case event := <-w.ResultChan():
			set, ok := event.Object.(*appsv1.ReplicaSet)
			revision, size := "", int32(0)
			if ok {
				revision, size = set.Spec.Template.Labels["revision"], *set.Spec.Replicas
			}
			if !ok || sizes[revision] == size {
				continue
			}
			sizes[revision] = size
			if size == 0 {
				delete(sizes, revision)
			}
			out = append(out, maps.Clone(sizes))
		}
	}
}
