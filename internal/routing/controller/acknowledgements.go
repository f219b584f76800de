package controller

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"k8s.io/apimachinery/pkg/types"
)

// Acknowledgements are how far the proxies of each IngressDaemonSet are, as their streams of this process say, and
// those of other replicas, which tell it (progress.go).
type Acknowledgements struct {
	mu      sync.Mutex
	streams map[types.NamespacedName]map[uint64]delta.Report
	// changed is told of an IngressDaemonSet of which a proxy has by now what was committed after one position and up to
	// another, or of all positions where there are more proxies or fewer.
	changed func(set types.NamespacedName, after, upTo uint64)
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
	return &Acknowledgements{
		streams: map[types.NamespacedName]map[uint64]delta.Report{}, changed: func(types.NamespacedName, uint64, uint64) {},
		elsewhere: map[uint64]Told{}, gatewayChanged: func(types.NamespacedName) {}, refusedChanged: func() {}, progress: func() []Progress { return nil },
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
	was, known := of[r.Stream]
	before, after := refusedBy(r.IngressDaemonSet, was), refusedBy(r.IngressDaemonSet, r)
	if of[r.Stream] = r; r.Ended {
		delete(of, r.Stream)
		after = nil
	}
	if len(of) == 0 {
		delete(a.streams, r.IngressDaemonSet)
	}
	changed := a.changed
	a.mu.Unlock()
	if !known || r.Ended {
		changed(r.IngressDaemonSet, 0, math.MaxUint64)
	} else if was.Position < r.Position {
		changed(r.IngressDaemonSet, was.Position, r.Position)
	}
	a.refusedNow(before, after)
}

// proxies are how far those of an IngressDaemonSet are, in the order of their positions.
type proxies []uint64

// Of are those of an IngressDaemonSet.
func (a *Acknowledgements) Of(set types.NamespacedName) proxies {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.furthest(set)))
}

// have is how many have what was committed at a position: nobody has what nobody was told of yet.
func (p proxies) have(position uint64) int {
	if position == 0 {
		return 0
	}
	at, _ := slices.BinarySearch(p, position)
	return len(p) - at
}

// furthest is how far each pod of an IngressDaemonSet is. One that opens another stream is counted once, and has what
// one of them has.
func (a *Acknowledgements) furthest(set types.NamespacedName) map[types.UID]uint64 {
	out := map[types.UID]uint64{}
	for _, r := range a.streams[set] {
		out[r.UID] = max(out[r.UID], r.Position)
	}
	return out
}
