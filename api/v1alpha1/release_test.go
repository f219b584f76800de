package v1alpha1_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written are annotations of testdata/v0.1.0.json, by what they say: the bytes that v0.1.0
// (commit dd2c808) wrote, whose objects later releases find.
func written(t *testing.T) map[string]map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/v0.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]map[string]string
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHoldOfTheFirstRelease is read as it was meant, and written with the same bytes.
func TestHoldOfTheFirstRelease(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for what, want := range map[string]v1alpha1.Hold{
		"held back": {
			Attempts: 2, Revision: "5f6d9c7b8", Generation: 3, Reason: "OutOfcpu Node didn't have enough resource: cpu",
			At: metav1.NewMicroTime(at), Replicas: 1, Paused: true, Terminating: true,
		},
		"tried again": {Attempts: 3, Revision: "5f6d9c7b8", Generation: 3, Replicas: 2, Trying: true},
	} {
		annotations := written(t)[what]
		got := v1alpha1.HoldOf(annotations)
		if got == nil || !got.At.Time.Equal(want.At.Time) {
			t.Fatalf("%s: %+v", what, got)
		}
		if got.At = want.At; *got != want || want.Value() != annotations[v1alpha1.AnnotationHold] {
			t.Errorf("%s: read is %+v, written would be %s", what, *got, want.Value())
		}
	}
}

// TestRequestOfTheFirstRelease is read as it was meant, and written with the same bytes.
func TestRequestOfTheFirstRelease(t *testing.T) {
	const uid = "0b9f8f0e-93d6-4b8b-a0f5-7e0c2f1f6a11"
	for what, want := range map[string]v1alpha1.DetachmentRequest{
		"asked for":       {At: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)},
		"asked for again": {At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), StaleTimestamp: "2026-01-01T00:00:00Z"},
	} {
		annotations := written(t)[what]
		got := v1alpha1.DetachmentRequestOf(annotations, uid)
		if got == nil || *got != want || got.Value() != annotations[v1alpha1.DetachmentRequestKey(uid)] {
			t.Errorf("%s: read is %+v", what, got)
		}
		if other := v1alpha1.DetachmentRequestOf(annotations, "another"); other != nil {
			t.Errorf("%s: another asked: %+v", what, other)
		}
	}
}

// TestMarkOfTheFirstRelease is read as it was meant, and written with the same bytes.
func TestMarkOfTheFirstRelease(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	for what, kind := range map[string]string{"marked": "", "marked while it serves": v1alpha1.MarkServing} {
		mark, marked := v1alpha1.MarkOf(written(t)[what])
		at, ours := mark.At()
		if !marked || !ours || !at.Equal(asked.Truncate(time.Millisecond)) || mark != v1alpha1.NewMark(asked, "5f6d9c7b8", kind) {
			t.Errorf("%s: read is %q, %t of %s, %t", what, mark, marked, at, ours)
		}
		if mark.Is(v1alpha1.MarkServing) != (kind != "") || mark.Is(v1alpha1.MarkOutOfTurn) {
			t.Errorf("%s: %q is of another kind", what, mark)
		}
	}
}

// TestDrainOfTheFirstRelease is read as it was meant, and written with the same bytes.
func TestDrainOfTheFirstRelease(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	drained, detached := written(t)["drained"], written(t)["detached by hand"]
	if at, was := v1alpha1.DrainedAt(drained); !was || v1alpha1.Timestamp(asked) != drained[v1alpha1.AnnotationDrainedAt] || !at.Equal(asked.Truncate(time.Millisecond)) {
		t.Errorf("drained at %s, %t", at, was)
	}
	if _, was := v1alpha1.DrainedAt(detached); was || v1alpha1.IsDetached(drained) || !v1alpha1.IsDetached(detached) {
		t.Error("who is drained and who is detached is taken for each other")
	}
	if value := v1alpha1.DetachedValue("kubectl-ids", asked); value != detached[v1alpha1.AnnotationDetached] {
		t.Errorf("written would be %q", value)
	}
	for pods, annotations := range map[int32]map[string]string{2: drained, 0: detached} {
		if got, ok := v1alpha1.PodsPerNode(annotations); !ok || got != pods || v1alpha1.PodsPerNodeValue(pods) != annotations[v1alpha1.AnnotationPodsPerNode] {
			t.Errorf("%d pods are read as %d, %t", pods, got, ok)
		}
	}
	if at := v1alpha1.Moment(detached, v1alpha1.AnnotationAttachedAt); !at.Equal(asked.Truncate(time.Millisecond)) {
		t.Errorf("attached at %s", at)
	}
}
