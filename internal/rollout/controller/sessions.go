package controller

import (
	"context"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
