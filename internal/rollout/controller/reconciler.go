package controller

import (
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler brings IngressDaemonSets to what they should be.
type Reconciler struct {
	client client.Client
	// index is where client reads the objects of a kind.
	index index
	// live reads past the cache.
	live     client.Reader
	recorder events.EventRecorder
	// now is the clock.
	now func() time.Time
	// parallel is how many nodes are written to at a time.
	parallel int
	// image is the health checker's, where an IngressDaemonSet names none.
	image string
	// detachers are those that the operator permits.
	detachers []rollout.Detacher
	// checkAnalysis says what of a check of the analysis no measurement could mend.
	checkAnalysis func(v1alpha1.AnalysisCheck, rollout.Wave) error
	// mutations are what was written, sessions what is remembered of each IngressDaemonSet.
	mutations *mutationCache
	sessions  *sessions
	freezes   *freezeDetector
}

// shortened fits into the note of an event, which is refused when it is longer, and into a condition beside others.
func shortened(note string) string {
	const most = 1000
	if len(note) <= most {
		return note
	}
	return strings.ToValidUTF8(note[:most], "") + "..."
}
