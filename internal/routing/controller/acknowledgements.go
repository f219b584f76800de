package controller

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"k8s.io/apimachinery/pkg/types"
)

// Acknowledgements are how far the proxies of each IngressDaemonSet are, as their streams of this process say, and
// those of other replicas, which tell it (progress.go).
type Acknowledgements struct {
	mu   sync.Mutex
	pods map[types.UID]*pod
	// changed is told of an IngressDaemonSet of which a proxy has by now what was committed after one position and up to
	// another, or of all positions where there are more proxies or fewer.
	changed func(set types.NamespacedName, after, upTo uint64)
	// elsewhere is what other replicas tell, and objectChanged is told of an object of whose status a proxy or another
	// replica says something new, refusedChanged that something is refused, or is no more.
	elsewhere      map[uint64]replicaState
	objectChanged  func(routing.Ref)
	refusedChanged func()
	// progress is how far the proxies of this process are with each Gateway.
	progress func() []gatewayProgress
	// after does something when whoever moved to another replica must have been told of by that. Tests have another.
	after func(do func())
}

// pod is one that has streams to this process, or had one a moment ago: its next one may be another replica's.
type pod struct {
	open map[uint64]bool
	// last is its last word, on whichever of its streams: one that it has opened says nothing before it acknowledges.
	last delta.Report
	// ends is how often it had no stream any more.
	ends int
}

// NewAcknowledgements knows of no stream.
func NewAcknowledgements() *Acknowledgements {
	return &Acknowledgements{
		pods: map[types.UID]*pod{}, changed: func(types.NamespacedName, uint64, uint64) {}, elsewhere: map[uint64]replicaState{},
		objectChanged: func(routing.Ref) {}, refusedChanged: func() {}, progress: func() []gatewayProgress { return nil },
		after: func(do func()) { time.AfterFunc(hearOthers, do) },
	}
}

// Report is delta.Options.Report.
func (a *Acknowledgements) Report(r delta.Report) {
	a.mu.Lock()
	p := a.pods[r.UID]
	if p == nil {
		p = &pod{open: map[uint64]bool{}, last: delta.Report{Peer: r.Peer}}
		a.pods[r.UID] = p
	}
	before, connected := p.last, len(p.open) > 0
	p.hear(r)
	after, still, ends := p.last, len(p.open) > 0, p.ends
	changed := a.changed
	a.mu.Unlock()
	if connected != still {
		changed(r.IngressDaemonSet, 0, math.MaxUint64)
	} else if before.Position < after.Position {
		changed(r.IngressDaemonSet, before.Position, after.Position)
	}
	a.refusedNow(refusedBy(before), refusedBy(after))
	if !still {
		a.after(func() { a.forget(p, ends) })
	}
}

// hear takes what a stream says. What one says that was opened before that of the last word came late.
func (p *pod) hear(r delta.Report) {
	if r.Position > 0 && r.Stream >= p.last.Stream {
		p.last = r
	}
	if p.open[r.Stream] = true; r.Ended {
		delete(p.open, r.Stream)
	}
	if len(p.open) == 0 {
		// What it has when it comes again it says then.
		p.last.Position = 0
		p.ends++
	}
}

// forget lets a pod go that has had no stream since.
func (a *Acknowledgements) forget(p *pod, ends int) {
	a.mu.Lock()
	gone := p.ends == ends && len(p.open) == 0
	if gone {
		delete(a.pods, p.last.UID)
	}
	a.mu.Unlock()
	if gone {
		a.refusedNow(refusedBy(p.last), nil)
	}
}

// proxies are how far those of an IngressDaemonSet are, in the order of their positions.
type proxies []uint64

// of are those of an IngressDaemonSet that have a stream. One that opens another is counted once.
func (a *Acknowledgements) of(set types.NamespacedName) (out proxies) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if p.last.IngressDaemonSet == set && len(p.open) > 0 {
			out = append(out, p.last.Position)
		}
	}
	slices.Sort(out)
	return out
}

// have is how many have what was committed at a position: nobody has what nobody was told of yet.
func (p proxies) have(position uint64) int {
	if position == 0 {
		return 0
	}
	at, _ := slices.BinarySearch(p, position)
	return len(p) - at
}
