package aws

import (
	"context"
	"net/http"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// These need HAProxy, /usr/sbin/haproxy.

func TestApplicationTargetsDrain(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Application, 10, map[string]string{delayAttribute: "30"}, nil)
	if counts := s.visited(s.at(10, 1), 40); counts[pod] != 20 || counts[other] != 20 {
		t.Errorf("requests went %v", counts)
	}
	s.await("the truth has them", func() bool { return int64(s.traffic(pod).Flows) == s.one.served.Load() })
	kept := s.talk(s.at(10, 0))
	for range 4 {
		_, err := kept.ask("")
		s.must(err)
	}
	short, long := make(chan error), make(chan error)
	begin := func(query string, done chan error) {
		one, two := s.one.served.Load(), s.two.served.Load()
		defer s.await("each target has one of them", func() bool { return s.one.served.Load() == one+1 && s.two.served.Load() == two+1 })
		for range 2 {
			go func() { _, err := ask(context.Background(), &http.Client{}, s.at(10, 1), query); done <- err }()
		}
	}
	begin("?pause=500ms", short)
	begin("?pause=7s", long)
	s.await("they are in the truth", func() bool { return s.traffic(pod).Open == 2 })
	s.must(s.deregister("pods", pod))
	s.await("no new request may come", func() bool { return !s.traffic(pod).Taking })
	before := s.one.served.Load()
	for range 20 { // on a connection of the client that goes on
		if got, err := kept.ask(""); err != nil || got != other {
			t.Errorf("after it left: %s %v", got, err)
		}
	}
	s.expect("requests after it left", s.one.served.Load(), before)
	s.must(<-short)
	s.must(<-short)
	s.expect("state", s.state("pods", pod), "draining Target.DeregistrationInProgress")
	if err := <-long; err == nil {
		t.Error("a request that outlasted the delay was answered")
	}
	s.awaitState("pods", pod, "unused Target.NotRegistered")
	if err := <-long; err != nil {
		t.Errorf("the request to the other target: %v", err)
	}
}

func TestAnUnhealthyApplicationTargetKeepsItsRequests(t *testing.T) {
	t.Parallel()
	s := front(t, cloud.Application, 11, nil, nil)
	done, before := make(chan error), []int64{s.one.served.Load(), s.two.served.Load()}
	for range 2 {
		go func() { _, err := ask(context.Background(), &http.Client{}, s.at(11, 1), "?pause=4s"); done <- err }()
	}
	s.await("they are under way", func() bool { return s.one.served.Load() > before[0] && s.two.served.Load() > before[1] })
	s.one.healthy.Store(false)
	s.awaitState("pods", pod, "unhealthy Target.ResponseCodeMismatch")
	s.await("new requests avoid it", func() bool { return s.visited(s.at(11, 1), 20)[other] == 20 })
	s.must(<-done)
	s.must(<-done)
	s.one.healthy.Store(true)
	s.await("it is back", func() bool { return s.visited(s.at(11, 1), 20)[pod] == 10 })
}
