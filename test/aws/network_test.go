package aws

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	delayAttribute = "deregistration_delay.timeout_seconds"
	cutOnLeaving   = "deregistration_delay.connection_termination.enabled"
	cutOnUnhealthy = "target_health_state.unhealthy.connection_termination.enabled"
	crossZone      = "load_balancing.cross_zone.enabled"
)

var across = map[string]string{crossZone: "true"}

// New flows go on after the API has forgotten the target, then they stop; established
// ones outlive all of it.
func TestNetworkFlowsOutliveDeregistering(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 1, map[string]string{delayAttribute: "1"}, across)
	counts := s.visited(s.at(1, 1), 40)
	if counts[pod] == 0 || counts[other] == 0 || counts["failed"] > 0 {
		t.Errorf("connections led to %v", counts)
	}
	kept := s.to(s.at(1, 1), pod)
	left := time.Now()
	s.must(s.deregister("pods", pod))
	s.awaitState("pods", pod, "unused Target.NotRegistered")
	if s.visited(s.at(1, 1), 40)[pod] == 0 {
		t.Error("no new flow after it reads unused")
	}
	s.expect("new flows may come", s.traffic(pod).Taking, true)
	s.await("no new flow may come", func() bool { return !s.traffic(pod).Taking })
	silent := time.Now()
	s.expect("new flows afterwards", s.visited(s.at(1, 1), 40)[other], 40)
	truth := s.traffic(pod)
	if truth.LastFlow.Before(left) || truth.LastFlow.After(silent) || truth.Flows < 2 || truth.Open != 1 {
		t.Errorf("left at %v, silent since %v, and the truth is %+v", left, silent, truth)
	}
	if got, err := kept.ask(""); err != nil || got != pod {
		t.Errorf("the established flow: %s %v", got, err)
	}
}

// A client of the API that believes unused loses requests; one that waits for what the
// truth says loses none.
func TestATargetThatStopsTooEarlyIsSeen(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 7, map[string]string{delayAttribute: "0"}, across)
	s.must(s.deregister("pods", pod))
	s.expect("state", s.state("pods", pod), "unused Target.NotRegistered")
	s.one.stop()
	if counts := s.visited(s.at(7, 1), 40); counts["failed"] == 0 {
		t.Errorf("it stopped when it read unused, and connections led to %v", counts)
	}
	s.await("no new flow may come", func() bool { return !s.traffic(pod).Taking })
	s.expect("connections to the other one", s.visited(s.at(7, 1), 40)[other], 40)
}

func TestNetworkFlowsAreCutWhereTheGroupSaysSo(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 2, map[string]string{delayAttribute: "20", cutOnLeaving: "true"}, across)
	kept := s.to(s.at(2, 1), pod)
	s.must(s.deregister("pods", pod))
	if got, err := kept.ask(""); err != nil || got != pod {
		t.Errorf("while it drains: %s %v", got, err)
	}
	s.reset(kept)
	s.await("it is counted", func() bool { return s.traffic(pod).Cut == 1 })
	s.expect("state", s.state("pods", pod), "unused Target.NotRegistered")
}

func TestAnUnhealthyTargetLosesItsFlows(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 3, nil, across)
	kept := s.to(s.at(3, 1), pod)
	s.one.healthy.Store(false)
	s.reset(kept)
	s.expect("state", s.state("pods", pod), "unhealthy Target.FailedHealthChecks")
	s.await("new flows avoid it", func() bool { return s.visited(s.at(3, 1), 20)[other] == 20 })
	s.one.healthy.Store(true)
	s.awaitState("pods", pod, "healthy")
	s.to(s.at(3, 1), pod)
}

func TestAnUnhealthyTargetKeepsItsFlowsWhereTheGroupSaysSo(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 4, map[string]string{cutOnUnhealthy: "false"}, across)
	kept := s.to(s.at(4, 1), pod)
	s.one.healthy.Store(false)
	s.awaitState("pods", pod, "unhealthy Target.FailedHealthChecks")
	s.await("new flows avoid it", func() bool { return s.visited(s.at(4, 1), 20)[other] == 20 })
	if got, err := kept.ask(""); err != nil || got != pod {
		t.Errorf("the established flow: %s %v", got, err)
	}
	s.two.healthy.Store(false)
	s.awaitState("pods", other, "unhealthy Target.FailedHealthChecks")
	s.to(s.at(4, 1), pod) // none is healthy: it fails open
}

func TestZonesAreKeptApart(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 5, map[string]string{delayAttribute: "0"}, nil)
	s.expect("zone a", s.visited(s.at(5, 1), 20)[pod], 20)
	s.expect("zone b", s.visited(s.at(5, 2), 20)[other], 20)
	if counts := s.visited(s.at(5, 0), 60); counts[pod] == 0 || counts[other] == 0 {
		t.Errorf("by name: %v", counts)
	}
	s.must(s.deregister("pods", pod))
	s.await("zone a is empty", func() bool { return s.visited(s.at(5, 1), 5)["failed"] == 5 })
	_, err := visit(t.Context(), s.at(5, 1))
	s.expect("a connection to it is reset", errors.Is(err, syscall.ECONNRESET), true)
	s.await("its address has left the name", func() bool { return s.visited(s.at(5, 0), 60)[other] == 60 })
	truth, err := s.admin.Truth(t.Context())
	s.must(err)
	if truth.Refused[s.at(5, 1)] < 5 {
		t.Errorf("refused: %v", truth.Refused)
	}
}

func TestATargetThatDoesNotAnswerFailsItsFlows(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 6, nil, nil)
	f := s.fixture
	f.must(f.admin.PutTargetGroup(t.Context(), cloud.TargetGroup{Name: "dead", Protocol: "TCP", Port: 9, TargetType: "ip", AssumeHealthy: true}))
	f.must(f.admin.PutLoadBalancer(t.Context(), cloud.LoadBalancer{
		Name: "dead", Type: "network", Zones: []cloud.Zone{{Name: zoneA, Address: address(6, 0)}}, Listeners: []cloud.Listener{{Protocol: "TCP", Port: 9, TargetGroup: "dead"}},
	}))
	f.must(f.register("dead", local(1, 9)))
	f.awaitState("dead", local(1, 9), "healthy")
	_, err := visit(t.Context(), address(6, 0)+":9")
	f.expect("reset", errors.Is(err, syscall.ECONNRESET), true)
	f.expect("failed", f.traffic(local(1, 9)).Failed, 1)
	f.must(f.admin.DeleteLoadBalancer(t.Context(), "dead"))
	_, err = visit(t.Context(), address(6, 0)+":9")
	f.expect("refused once it is deleted", errors.Is(err, syscall.ECONNREFUSED), true)
}

// The end of a drain is drawn for each node of the balancer: connections to one of its
// addresses may still reach a target that those to the other do not. The draws say when.
func TestEachAddressStopsByItself(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 8, map[string]string{delayAttribute: "0"}, across)
	s.must(s.admin.SetLags(t.Context(), map[cloud.Kind]cloud.Lags{cloud.Network: {Linger: cloud.Range{Min: 10, Max: 60}}}))
	before, err := s.admin.Draws(t.Context(), 0)
	s.must(err)
	s.must(s.deregister("pods", pod))
	drawn, err := s.admin.Draws(t.Context(), len(before))
	s.must(err)
	s.expect("draws", len(drawn), 2)
	for i, d := range drawn {
		t.Log(d)
		at := s.at(8, 1+i)
		s.await("it stops", func() bool { return time.Now().After(d.At.Add(100 * time.Millisecond)) })
		s.expect("connections to "+d.Node+" afterwards", s.visited(at, 20)[other], 20)
		if later := drawn[1-i]; time.Until(later.At) > time.Second && s.visited(s.at(8, 2-i), 40)[pod] == 0 {
			t.Errorf("%s does not reach it, though it is to until %v", later.Node, later.At)
		}
	}
}

// With lags beyond the settle times a client of the API that waits for as long as AWS was ever seen
// to send new connections loses some.
func TestLagsBeyondTheSettleTimesLose(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Network, 9, map[string]string{delayAttribute: "0"}, across)
	s.must(s.admin.SetLags(t.Context(), cloud.BeyondSettleTimes))
	s.must(s.deregister("pods", pod))
	left := time.Now()
	const settle = 30 * time.Second // 300 s, ten times as fast
	s.expect("before it has settled", s.visited(s.at(9, 1), 20)["failed"], 0)
	for time.Since(left) < settle {
		time.Sleep(100 * time.Millisecond)
	}
	s.one.stop()
	if counts := s.visited(s.at(9, 0), 40); counts["failed"] == 0 {
		t.Errorf("after the settle time connections led to %v", counts)
	}
}
