package proxy

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// TestEndpoints: one that failed is left out, with how it failed; of others it is known how many connections there
// are.
func TestEndpoints(t *testing.T) {
	refusing, serving := nowhere(t, "refusing"), saying(t, "hello")
	leaving := wire.Endpoint{Address: "127.0.0.9", Port: 9, UID: "leaving", State: wire.Terminating}
	s := started(t)
	tell(t, s, append(backendOf(cheddar, refusing, serving, leaving), web(), route("all"))...)
	c := clientAt(t, s, 80)
	for range 4 {
		if text := got(t, c, "http://a/"); text != "200 hello" {
			t.Fatal(text)
		}
	}
	state := func(uid string) (e EndpointState) {
		states, all := s.Proxy().Endpoints(cheddar, 10)
		if len(states) != 3 || all != 3 {
			t.Fatalf("there are %d of %d", len(states), all)
		}
		for _, e := range states {
			if e.UID == uid {
				return e
			}
		}
		t.Fatalf("there is no %s", uid)
		return e
	}
	if e := state("refusing"); e.Out.IsZero() || e.Failed == nil || e.Open != 0 {
		t.Errorf("the one that refuses is %+v", e)
	}
	await.True(t, "the connection is idle", func() bool {
		e := state("hello")
		return e.Out.IsZero() && e.Failed == nil && e.Open == 1 && e.Idle == 1
	})
	if e := state("leaving"); e.State != wire.Terminating || !e.Out.IsZero() {
		t.Errorf("the one that leaves is %+v", e)
	}
	if states, all := s.Proxy().Endpoints(cheddar, 1); len(states) != 1 || all != 3 {
		t.Errorf("at most one are %d of %d", len(states), all)
	}
	if states, all := s.Proxy().Endpoints("shop/unknown:80", 10); len(states)+all != 0 {
		t.Errorf("of an unknown backend there are %d", all)
	}
}

// TestEndpointsOfH2C: nothing is known of their connections.
func TestEndpointsOfH2C(t *testing.T) {
	s := started(t)
	resources := backendOf(cheddar, saying(t, "hello"))
	resources[1].Backend.Protocol = "h2c"
	tell(t, s, resources...)
	if states, _ := s.Proxy().Endpoints(cheddar, 10); len(states) != 1 || states[0].Open >= 0 {
		t.Errorf("they are %+v", states)
	}
}

// TestReserved: no listener is opened at a port that is reserved, and others are.
func TestReserved(t *testing.T) {
	s := started(t, func(o *Options) { o.Reserved = map[uint16]string{9080: "it is another's"} })
	other := web(func(l *wire.Listener) { l.Port = 9080 })
	other.Name = "other"
	if result := s.Proxy().Apply(table.Changes{Set: []wire.Resource{web(), other}}); len(result.Refused) > 0 {
		t.Fatal(result.Refused)
	}
	unavailable := s.Listen()
	if len(unavailable) != 1 || unavailable[0].Port != 9080 || unavailable[0].Err.Error() != "it is another's" || s.Addresses()[80] == nil || s.Addresses()[9080] != nil {
		t.Errorf("unavailable are %v, listened at is %v", unavailable, s.Addresses())
	}
}
