package forward

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// truth is where flows really went, of which the API says nothing. A flow is a
// connection of TCP or a request of HTTP.
type truth struct {
	mu   sync.Mutex
	by   map[place]*Traffic
	none map[string]int
}

type place struct {
	group string
	id    string
	port  int
}

// Traffic is what a target of a group got. Registrations of the same target count together.
type Traffic struct {
	Group    string       `json:"group"` // ARN; of a classic load balancer its own
	Target   cloud.Target `json:"target"`
	LastFlow time.Time    `json:"lastFlow"` // when the last new flow was sent there; of HTTP at most 0.1 s late
	Flows    int          `json:"flows"`    // so far
	Open     int          `json:"open"`
	Failed   int          `json:"failed"` // flows of TCP that the target did not accept
	Cut      int          `json:"cut"`    // flows of TCP that were reset before they ended
	Taking   bool         `json:"taking"` // new flows may still come
}

func newTruth() *truth { return &truth{by: map[place]*Traffic{}, none: map[string]int{}} }

// targets are all that ever got a flow.
func (t *truth) targets() []Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []Traffic{}
	for _, traffic := range t.by {
		all = append(all, *traffic)
	}
	slices.SortFunc(all, func(a, b Traffic) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Target.ID, b.Target.ID), cmp.Compare(a.Target.Port, b.Target.Port))
	})
	return all
}

func (t *truth) refusals() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.none)
}

func (t *truth) change(l cloud.Lease, how func(*Traffic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := place{l.Group, l.Target.ID, l.Target.Port}
	if t.by[k] == nil {
		t.by[k] = &Traffic{Group: l.Group, Target: l.Target}
	}
	how(t.by[k])
}

func (t *truth) opened(l cloud.Lease, at time.Time) {
	t.change(l, func(x *Traffic) { x.Flows++; x.Open++; x.LastFlow = at })
}

func (t *truth) closed(l cloud.Lease) { t.change(l, func(x *Traffic) { x.Open-- }) }
func (t *truth) failed(l cloud.Lease) { t.change(l, func(x *Traffic) { x.Failed++ }) }
func (t *truth) cut(l cloud.Lease)    { t.change(l, func(x *Traffic) { x.Cut++ }) }

// counted tells how many requests HAProxy has sent a target since it last told, and how
// many more are under way than it last told.
func (t *truth) counted(l cloud.Lease, requests, open int, at time.Time) {
	t.change(l, func(x *Traffic) {
		x.Flows += requests
		x.Open += open
		if requests > 0 {
			x.LastFlow = at
		}
	})
}

func (t *truth) refused(s cloud.Socket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.none[s.Address]++
}
