package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/access"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// Client speaks to the admin interface of a server.
type Client struct{ http *http.Client }

// NewClient makes a client of an admin address, host:port or unix: and a path.
func NewClient(address string) *Client {
	network, at := networkOf(address)
	var dialer net.Dialer
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, network, at) },
	}}}
}

// PutInstance makes or changes an instance.
func (c *Client) PutInstance(ctx context.Context, i cloud.Instance) error {
	return c.do(ctx, "PUT", "/instances", i, nil)
}

// PutTargetGroup makes a group, or changes all of one but its targets.
func (c *Client) PutTargetGroup(ctx context.Context, g cloud.TargetGroup) error {
	return c.do(ctx, "PUT", "/target-groups", g, nil)
}

// DeleteTargetGroup deletes a group that no listener uses.
func (c *Client) DeleteTargetGroup(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "/target-groups/"+name, nil, nil)
}

// PutLoadBalancer makes or changes a network or application load balancer.
func (c *Client) PutLoadBalancer(ctx context.Context, b cloud.LoadBalancer) error {
	return c.do(ctx, "PUT", "/load-balancers", b, nil)
}

// PutClassicLoadBalancer makes a classic load balancer, or changes all of one but its instances.
func (c *Client) PutClassicLoadBalancer(ctx context.Context, b cloud.ClassicLoadBalancer) error {
	return c.do(ctx, "PUT", "/classic-load-balancers", b, nil)
}

// DeleteLoadBalancer deletes a load balancer of any kind.
func (c *Client) DeleteLoadBalancer(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "/load-balancers/"+name, nil, nil)
}

// SetFaults puts faults in the place of those in force; none ends them.
func (c *Client) SetFaults(ctx context.Context, faults ...api.Fault) error {
	return c.do(ctx, "PUT", "/faults", append([]api.Fault{}, faults...), nil)
}

// SetLimits changes the buckets of throttling, which are then full; none sets AWS's.
func (c *Client) SetLimits(ctx context.Context, limits api.Limits) error {
	return c.do(ctx, "PUT", "/limits", limits, nil)
}

// SetLags changes what AWS takes for things that happen from now on, of the kinds and things
// that are named; none sets those of the beginning.
func (c *Client) SetLags(ctx context.Context, lags map[cloud.Kind]cloud.Lags) error {
	return c.do(ctx, "PUT", "/lags", lags, nil)
}

// ShiftZone shifts a load balancer away from one of its zones, or with "" ends that.
func (c *Client) ShiftZone(ctx context.Context, balancer, zone string) error {
	return c.do(ctx, "PUT", "/zonal-shift", ZonalShift{balancer, zone}, nil)
}

// Judge sets the health of a target in a group that sends no health checks.
func (c *Client) Judge(ctx context.Context, v Verdict) error {
	return c.do(ctx, "POST", "/health", v, nil)
}

// TargetGroups are all target groups.
func (c *Client) TargetGroups(ctx context.Context) (groups []cloud.GroupView, err error) {
	return groups, c.do(ctx, "GET", "/target-groups", nil, &groups)
}

// LoadBalancers are those of all kinds.
func (c *Client) LoadBalancers(ctx context.Context) (balancers []cloud.BalancerView, err error) {
	return balancers, c.do(ctx, "GET", "/load-balancers", nil, &balancers)
}

// Truth is where traffic really went.
func (c *Client) Truth(ctx context.Context) (truth Truth, err error) {
	return truth, c.do(ctx, "GET", "/truth", nil, &truth)
}

// UnusedGrants are the actions of policies that never permitted a call.
func (c *Client) UnusedGrants(ctx context.Context) (grants []access.Grant, err error) {
	return grants, c.do(ctx, "GET", "/grants/unused", nil, &grants)
}

// Calls are those with a higher number than after, in the order in which they were answered.
func (c *Client) Calls(ctx context.Context, after int) (calls []api.Call, err error) {
	return calls, c.do(ctx, "GET", fmt.Sprintf("/calls?after=%d", after), nil, &calls)
}

// Draws are the moments that were drawn for the nodes of load balancers, but for the first
// after of them.
func (c *Client) Draws(ctx context.Context, after int) (draws []cloud.Draw, err error) {
	return draws, c.do(ctx, "GET", fmt.Sprintf("/draws?after=%d", after), nil, &draws)
}

func (c *Client) do(ctx context.Context, method, path string, body, answer any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, &content)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, strings.TrimSpace(string(text)))
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
