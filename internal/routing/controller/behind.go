package controller

import (
	"fmt"
	"maps"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"k8s.io/apimachinery/pkg/types"
)

// A Gateway that was programmed stays so (docs/adr/0034). That proxies lag behind is told by the message of its
// condition. They are counted seldom, and what is so at two counts in a row is told: whoever was told a moment ago has
// not answered yet.

// countEvery is the shortest time between two counts.
const countEvery = 10 * time.Second

// count is how many of all proxies have what was made of a Gateway.
type count struct{ have, all int }

func (c count) lags() bool { return c.all == 0 || c.have < c.all }

func (c count) String() string {
	if c.all == 0 {
		return "none of them is connected"
	}
	return fmt.Sprintf("%d of %d have what was made of it last", c.have, c.all)
}

// counts are those of all Gateways.
type counts struct {
	every time.Duration
	at    time.Time
	last  map[routing.Ref]count
	// behind are the last of those that lag and did at the count before.
	behind map[routing.Ref]count
}

// forget begins anew.
func (c *counts) forget() { *c = counts{every: c.every} }

// take takes the counts of a moment, and gives those Gateways of which there is something else to be told than before.
func (c *counts) take(now time.Time, counted map[routing.Ref]count) (changed []routing.Ref) {
	behind := map[routing.Ref]count{}
	for ref, n := range counted {
		if before, is := c.last[ref]; is && before.lags() && n.lags() {
			behind[ref] = n
		}
	}
	told := maps.Clone(c.behind)
	c.at, c.last, c.behind = now, counted, behind
	for ref, n := range behind {
		if before, is := told[ref]; !is || before != n {
			changed = append(changed, ref)
		}
		delete(told, ref)
	}
	for ref := range told {
		changed = append(changed, ref)
	}
	return changed
}

// countAt is when proxies are to be counted, zero where there is nothing to count them for.
func (s *statuses) countAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.complete || len(s.gatewayRefs) == 0 {
		return time.Time{}
	}
	return s.counts.at.Add(s.counts.every)
}

// countProxies counts them where it is time, and has those Gateways looked at of which there is something new to be told.
func (s *statuses) countProxies(now time.Time) {
	if at := s.countAt(); at.IsZero() || now.Before(at) {
		return
	}
	counted, here := map[routing.Ref]count{}, map[types.NamespacedName]proxies{}
	for ref, wanted := range s.gateways() {
		set := wanted.Gateway.IngressDaemonSet
		if _, is := here[set]; !is {
			here[set] = s.acknowledged.of(set)
		}
		counted[ref] = s.acknowledged.count(here[set], ref, wanted)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range s.counts.take(now, counted) {
		if s.known(ref) {
			s.further(ref)
		}
	}
}

// count is how many proxies, those of this process and of others, have what is wanted of a Gateway.
func (a *Acknowledgements) count(here proxies, gateway routing.Ref, wanted status) count {
	name := types.NamespacedName{Namespace: gateway.Namespace, Name: gateway.Name}
	have, all := a.ofOthers(name, wanted.Gateway.IngressDaemonSet, wanted.Generation)
	return count{have + here.have(wanted.position), all + len(here)}
}
