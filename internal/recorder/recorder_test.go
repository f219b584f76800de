package recorder

import (
	"context"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

// sink has what was written, and how often what was there was counted.
type sink struct {
	mu      sync.Mutex
	notes   []string
	counted int
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, e.Note)
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	return e, nil
}

// TestByNote: of events that differ in nothing but the note each is told, and one that is repeated is counted.
func TestByNote(t *testing.T) {
	s := &sink{}
	b := events.NewBroadcaster(s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := b.StartRecordingToSinkWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	defer b.Shutdown()
	r := ByNote(b.NewRecorder(scheme.Scheme, "test"))
	about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
	for _, node := range []string{"node-1", "node-2", "node-1"} {
		r.Eventf(about, nil, corev1.EventTypeNormal, "PodsUpdated", "Update", "%s: 100%% of pods", node)
	}
	await.True(t, "two are told and one is counted", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.notes) == 2 && s.counted == 1 && s.notes[0] != s.notes[1]
	})
}
