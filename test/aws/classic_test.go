package aws

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// The data plane of these needs HAProxy, /usr/sbin/haproxy.

// old is a classic balancer with both instances in service.
type old struct {
	*fixture
	tcp, http string // its addresses
	one, two  *backend
}

var bothInstances = []types.Instance{{InstanceId: sdk.String("i-a")}, {InstanceId: sdk.String("i-b")}}

func classicFront(t *testing.T, part int, draining bool) *old {
	t.Helper()
	tcp, http, port := 10000+part, 10100+part, 11000+part
	f := serve(t, func(c *Config) {
		c.ClassicLoadBalancers = []cloud.ClassicLoadBalancer{{
			Name: "old", Zones: []cloud.Zone{{Name: zoneA, Address: address(part, 1)}, {Name: zoneB, Address: address(part, 2)}}, CrossZone: true,
			Listeners: []cloud.ClassicListener{{Protocol: "TCP", Port: tcp, InstancePort: port}, {Protocol: "HTTP", Port: http, InstancePort: port}},
			Check:     cloud.ClassicCheck{Target: fmt.Sprintf("HTTP:%d/healthz", port), IntervalSeconds: 5, HealthyThreshold: 2},
			Draining:  draining, Timeout: 3600,
		}}
	})
	o := &old{f, fmt.Sprintf("%s:%d", address(part, 1), tcp), fmt.Sprintf("%s:%d", address(part, 1), http), f.backend(pod, port), f.backend(other, port)}
	_, err := o.classic().RegisterInstancesWithLoadBalancer(t.Context(), &classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: sdk.String("old"), Instances: bothInstances})
	o.must(err)
	o.await("both are in service", func() bool { return slices.Equal(o.states(), []string{"InService: N/A", "InService: N/A"}) })
	o.await("HTTP reaches both", func() bool { c := o.visited(o.http, 20); return c[pod] > 0 && c[other] > 0 })
	return o
}

func (o *old) states() (all []string) {
	o.Helper()
	found, err := o.classic().DescribeInstanceHealth(o.Context(), &classic.DescribeInstanceHealthInput{LoadBalancerName: sdk.String("old"), Instances: bothInstances})
	o.must(err)
	for _, i := range found.InstanceStates {
		all = append(all, *i.State+": "+*i.Description)
	}
	return all
}

// leave deregisters the first instance.
func (o *old) leave() {
	o.Helper()
	_, err := o.classic().DeregisterInstancesFromLoadBalancer(o.Context(), &classic.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: sdk.String("old"), Instances: bothInstances[:1]})
	o.must(err)
}

// long are two requests that take a while, one for each instance.
func (o *old) long() chan error {
	o.Helper()
	one, two, done := o.one.served.Load(), o.two.served.Load(), make(chan error, 2)
	for range 2 {
		go func() {
			_, err := ask(context.Background(), &http.Client{}, o.http, "?pause=4s")
			done <- err
		}()
	}
	o.await("they are under way", func() bool { return o.one.served.Load() == one+1 && o.two.served.Load() == two+1 })
	return done
}

func TestClassicWithoutDrainingCutsAtOnce(t *testing.T) {
	t.Parallel()
	o := classicFront(t, 12, false)
	kept := o.to(o.tcp, pod)
	long := o.long()
	o.leave()
	o.expect("state", o.states()[0], "OutOfService: Instance is not currently registered with the LoadBalancer.")
	o.reset(kept)
	if err := <-long; err == nil {
		t.Error("a request to an instance that was deregistered was answered")
	}
	o.must(<-long)
}

func TestClassicWithDrainingWaitsUntilIdle(t *testing.T) {
	t.Parallel()
	o := classicFront(t, 13, true)
	kept := o.to(o.tcp, pod)
	long := o.long()
	o.leave()
	o.await("new flows avoid it", func() bool { return o.visited(o.tcp, 20)[other] == 20 })
	o.expect("state", o.states()[0], "InService: Instance deregistration currently in progress.")
	o.must(<-long)
	o.must(<-long)
	if got, err := kept.ask(""); err != nil || got != pod {
		t.Errorf("the established flow: %s %v", got, err)
	}
	o.expect("state", o.states()[0], "InService: Instance deregistration currently in progress.")
	kept.Close()
	o.await("it is gone once it is idle", func() bool {
		return o.states()[0] == "OutOfService: Instance is not currently registered with the LoadBalancer."
	})
}
