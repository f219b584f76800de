package cloud

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// Probe is a health check that is due.
type Probe struct {
	Number   int    // of the registration
	Protocol string // TCP or HTTP
	Address  string // host:port
	Path     string
	Matcher  string
	Timeout  time.Duration
}

// Result is what became of a probe.
type Result struct {
	OK                  bool
	Reason, Description string // of a failure: Target.ResponseCodeMismatch, Target.Timeout or Target.FailedHealthChecks
}

// Probes are the health checks that are due. Targets are checked while they are
// registered or drain, and in use.
func (c *Cloud) Probes(now time.Time) []Probe {
	c.mu.Lock()
	defer c.mu.Unlock()
	var due []Probe
	for _, g := range c.allGroups() {
		c.forget(g, now)
		if g.AssumeHealthy {
			continue
		}
		for _, r := range slices.Concat(g.past, g.live) {
			if now.Before(r.nextCheck) || !r.listed(now) {
				continue
			}
			if reason, _ := c.unusedReason(g, r); reason != "" {
				continue
			}
			r.nextCheck = now.Add(c.seconds(g.HealthCheck.IntervalSeconds))
			due = append(due, Probe{
				Number: r.number, Protocol: g.HealthCheck.Protocol, Path: g.HealthCheck.Path, Matcher: g.HealthCheck.Matcher,
				Address: net.JoinHostPort(r.address, g.checkPort(r.target.Port)), Timeout: c.seconds(g.HealthCheck.TimeoutSeconds),
			})
		}
	}
	return due
}

// Checked tells the result of a probe. As many of one kind in a row as the group's
// threshold says make a verdict.
func (c *Cloud) Checked(number int, result Result, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byNumber[number]
	if r == nil || !r.listed(now) {
		return
	}
	g := r.group
	if result.OK {
		needed := g.HealthCheck.HealthyThreshold
		if len(r.verdicts) == 0 && g.kind != Classic {
			needed = 1 // the threshold is for targets that were unhealthy
		}
		if r.streak = max(r.streak, 0) + 1; r.streak >= needed {
			c.judge(r, verdict{at: now, state: Healthy})
		}
		return
	}
	if r.streak = min(r.streak, 0) - 1; -r.streak >= g.HealthCheck.UnhealthyThreshold {
		v := verdict{now, Unhealthy, result.Reason, result.Description}
		if g.kind == Network {
			v.reason, v.description = "Target.FailedHealthChecks", "Health checks failed"
		}
		c.judge(r, v)
	}
}

// Judge says what the health checks of a target come to, in a group that sends none.
func (c *Cloud) Judge(group, id string, port int, state, reason, description string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.allGroups() {
		r := g.find(Target{ID: id, Port: port})
		if g.Name != group || r == nil {
			continue
		}
		if !g.AssumeHealthy {
			return fmt.Errorf("group %s checks its targets itself", group)
		}
		if !slices.Contains([]string{Healthy, Unhealthy, Unavailable}, state) {
			return fmt.Errorf("a verdict cannot be %q", state)
		}
		c.judge(r, verdict{now, state, reason, description})
		return nil
	}
	return fmt.Errorf("%s port %d is not registered with group %s", id, port, group)
}

// Cuts are the moments at which flows to a registration that were opened before are reset.
func (c *Cloud) Cuts(number int) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byNumber[number]; r != nil {
		return slices.Clone(r.cuts)
	}
	return nil
}

// Cut reports whether one of these moments is between two others.
func Cut(cuts []time.Time, opened, now time.Time) bool {
	return slices.ContainsFunc(cuts, func(at time.Time) bool { return opened.Before(at) && !at.After(now) })
}

// Leaving are the registrations of which the state depends on whether they have open
// flows: those that drain from a classic load balancer.
func (c *Cloud) Leaving(now time.Time) (numbers []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.classics {
		for _, r := range b.group.past {
			if now.Before(r.drainedAt) && !now.Before(r.lingersUntil) {
				numbers = append(numbers, r.number)
			}
		}
	}
	return numbers
}

// Idle tells that one of those has no open flow. Its load balancer is then done with it.
func (c *Cloud) Idle(number int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.byNumber[number]; r != nil && now.Before(r.drainedAt) {
		r.drainedAt = now
	}
}
