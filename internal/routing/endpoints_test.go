package routing

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestStateOf(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		ready, serving, terminating *bool
		state                       wire.EndpointState
		serves                      bool
	}{
		{nil, nil, nil, wire.Ready, true},
		{&yes, nil, nil, wire.Ready, true},
		{&no, nil, nil, 0, false},
		{&no, &yes, &yes, wire.Terminating, true},
		{&no, &no, &yes, 0, false},
		{&no, &yes, &no, 0, false},
		{&no, &yes, nil, 0, false},
	} {
		state, serves := stateOf(discoveryv1.EndpointConditions{Ready: test.ready, Serving: test.serving, Terminating: test.terminating})
		if state != test.state || serves != test.serves {
			t.Errorf("%+v is %d, %t", test, state, serves)
		}
	}
}
