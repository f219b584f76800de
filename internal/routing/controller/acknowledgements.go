package controller

import (
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"k8s.io/apimachinery/pkg/types"
)

// Acknowledgements are how far the proxies of each IngressDaemonSet are, as their streams of this process say, and
// those of other replicas, which tell it (progress.go).
type Acknowledgements struct {
	mu      sync.Mutex
	streams map[types.NamespacedName]map[uint64]delta.Report
	// changed is told of an IngressDaemonSet whose proxies are further, more or fewer.
	changed func(types.NamespacedName)
	// elsewhere is what other replicas tell, and gatewayChanged is told of a Gateway of which one tells something
	// new, refusedChanged that something is refused, or is no more.
	elsewhere      map[uint64]Told
	gatewayChanged func(types.NamespacedName)
	refusedChanged func()
	// progress is how far the proxies of this process are with each Gateway.
	progress func() []Progress
}

// NewAcknowledgements knows of no stream.
func NewAcknowledgements() *Acknowledgements {
	nobody := func(types.NamespacedName) {}
	return &Acknowledgements{
		streams: map[types.NamespacedName]map[uint64]delta.Report{}, changed: nobody,
		elsewhere: map[uint64]Told{}, gatewayChanged: nobody, refusedChanged: func() {}, progress: func() []Progress { return nil },
	}
}

// Report is delta.Options.Report.
func (a *Acknowledgements) Report(r delta.Report) {
	a.mu.Lock()
	of := a.streams[r.IngressDaemonSet]
	if of == nil {
		of = map[uint64]delta.Report{}
		a.streams[r.IngressDaemonSet] = of
	}
	before, after := refusedBy(r.IngressDaemonSet, of[r.Stream]), refusedBy(r.IngressDaemonSet, r)
	if of[r.Stream] = r; r.Ended {
		delete(of, r.Stream)
		after = nil
	}
	if len(of) == 0 {
		delete(a.streams, r.IngressDaemonSet)
	}
	changed := a.changed
	a.mu.Unlock()
	changed(r.IngressDaemonSet)
	a.refusedNow(before, after)
}

// Of is how many proxies of an IngressDaemonSet have what was committed at a position, and how many there are. A
// pod that opens another stream is counted once, and has what one of them has.
func (a *Acknowledgements) Of(set types.NamespacedName, position uint64) (have, all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	furthest := map[types.UID]uint64{}
	for _, r := range a.streams[set] {
		furthest[r.UID] = max(furthest[r.UID], r.Position)
	}
	for _, at := range furthest {
		if at >= position {
			have++
		}
	}
	return have, len(furthest)
}
