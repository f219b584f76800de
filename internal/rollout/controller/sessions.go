package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// sessions are those of all IngressDaemonSets, and what they share. Each is made by the first pass,
// or by the first event that is to be remembered, and ends in the pass that finds its IngressDaemonSet
// gone: every such event calls for a pass.
type sessions struct {
	now func() time.Time
	// trigger calls for a pass, listen listens to a port until the context ends, spent is how much
	// of the processor's time the calling thread has used.
	trigger func(types.NamespacedName)
	listen  func(context.Context, *checks, *caller)
	spent   func() time.Duration
	// forget drops what was written for the IngressDaemonSets of a name, but for the one of that UID.
	forget func(key types.NamespacedName, but types.UID)
	// taints and measuring are what the sessions' evictions and measurements share.
	taints    *taints
	measuring *measuring

	mu  sync.Mutex
	all map[types.NamespacedName]*session
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{
		now: now, trigger: func(types.NamespacedName) {}, listen: listen, spent: threadTime, forget: func(types.NamespacedName, types.UID) {},
		taints: newTaints(now), measuring: newMeasuring(nil, now), all: map[types.NamespacedName]*session{},
	}
}

// of is the session of a name, which is made where there is none.
func (s *sessions) of(key types.NamespacedName) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key] == nil {
		s.all[key] = s.begin(key)
	}
	return s.all[key]
}

// begin makes a session that remembers nothing.
func (s *sessions) begin(key types.NamespacedName) *session {
	trigger := func() { s.trigger(key) }
	return &session{
		key: key, reasons: map[string]string{}, dryRun: &dryRun{now: s.now}, changes: &changes{}, evictions: newEvictions(s.taints),
		checks: newChecks(key, trigger, s.listen, s.now), measurements: newMeasurements(key, trigger, s.measuring), throttle: &throttle{spent: s.spent},
	}
}

// pass is the session of an IngressDaemonSet in a pass; that of another one of its name ends.
func (s *sessions) pass(set *v1alpha1.IngressDaemonSet) *session {
	key := client.ObjectKeyFromObject(set)
	found := s.of(key)
	if found.uid != "" && found.uid != set.UID {
		s.endBefore(key, set.UID)
		found = s.of(key)
	}
	found.uid = set.UID
	return found
}

// end ends the session of a name, if there is one: nothing is kept of it.
func (s *sessions) end(key types.NamespacedName) { s.endBefore(key, "") }

// endBefore ends it for another IngressDaemonSet of the name, of which what was written stays.
func (s *sessions) endBefore(key types.NamespacedName, another types.UID) {
	s.mu.Lock()
	ended := s.all[key]
	delete(s.all, key)
	s.mu.Unlock()
	if ended != nil {
		ended.checks.want(nil)
		ended.measurements.end()
	}
	unmeasure(key)
	s.forget(key, another)
}

// open are those that there are.
func (s *sessions) open() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*session, 0, len(s.all))
	for _, one := range s.all {
		out = append(out, one)
	}
	return out
}

// tell keeps the steps that are worth an event.
func (s *session) tell(done []rollout.Step) {
	s.untold = append(s.untold, slices.DeleteFunc(slices.Clone(done), func(step rollout.Step) bool { return reasons[step.Action] == "" })...)
}

// tick reports how long nodes were under way where that has ended.
func (s *session) tick(underWay bool, now time.Time) {
	switch {
	case underWay && s.waveBegan.IsZero():
		s.waveBegan = now
	case !underWay && !s.waveBegan.IsZero():
		waveHistogram.WithLabelValues(s.key.Namespace, s.key.Name).Observe(now.Sub(s.waveBegan).Seconds())
		s.waveBegan = time.Time{}
	}
}
