package controller

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// session is all that is remembered of one IngressDaemonSet between two passes, and what is
// listened to for it. It is lost with the process, and must not be missed then.
type session struct {
	key types.NamespacedName
	// uid is that of the IngressDaemonSet, empty before the first pass.
	uid types.UID

	// Passes use these, of which there is one at a time.

	readings *readings
	// seated is what is known of the pods of health checkers, by the UID of their DaemonSet.
	seated map[types.UID]seating
	// sights are when what stands in objects was first seen.
	sights rollout.Sights
	// untold are steps that were carried out since a status was last accepted: their events are
	// made when the next one is, so that whoever reads them finds the status that they are of.
	untold []rollout.Step
	// decided says whether there was a decision yet.
	decided bool
	// waveBegan is when the nodes that are under way began; zero where none are.
	waveBegan time.Time
	// reasons are those that conditions, by type, are reported with in the metrics.
	reasons map[string]string

	// Steps, events, and answers of ports and measurements use these beside a pass.

	dryRun       *dryRun
	changes      *changes
	evictions    *evictions
	checks       *checks
	measurements *measurements
	throttle     *throttle
}
