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
