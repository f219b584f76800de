// Package conformance holds a cluster to the Gateway API's own tests, which its flags say how to run. test/conformance
// starts the cluster, and runs them inside its network.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) { conformance.RunConformance(t) }
