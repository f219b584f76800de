package balancer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

const (
	// patience bounds a case at full scale, and what does not depend on it.
	patience = time.Hour
	// settled is how long traffic flows before and after what a case does.
	settled = 3 * time.Second
	// linesEvery is how often a case tells how far it is.
	linesEvery = 3 * time.Second
)

// Result is what a case has cost.
type Result struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Failed   int64  `json:"failed"`
	// Moves are the targets that were registered or deregistered, by the load
	// balancer's own log of calls.
	Moves int    `json:"moves"`
	Seed  uint64 `json:"seed"`

	// Took is how long traffic flowed, Report what the client says of it.
	Took   time.Duration  `json:"-"`
	Report traffic.Report `json:"-"`
	// Story is what happened, where requests failed.
	Story string `json:"-"`
}

// caseRun is one case under traffic.
type caseRun struct {
	*Fixture
	fleet  *harness.Fleet
	client *traffic.Process
	random *rand.Rand
	// before is the number of the last call before the case, and drawn that of draws.
	before, drawn int
}

// Run runs a case under traffic. Everything serves before it and after it.
func (s *Fixture) Run(ctx context.Context, c Case) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := &caseRun{Fixture: s, fleet: s.fleets[c.Group], random: rand.New(rand.NewPCG(s.Seed, 0))}
	if c.prepare != nil {
		if err := c.prepare(ctx, p); err != nil {
			return Result{}, fmt.Errorf("preparing it: %w", err)
		}
	}
	calls, err := s.account.admin.Calls(ctx, 0)
	if err != nil {
		return Result{}, err
	}
	p.before = len(calls)
	draws, err := s.account.admin.Draws(ctx, 0)
	if err != nil {
		return Result{}, err
	}
	p.drawn = len(draws)
	story := p.fleet.Tell(ctx)
	if p.client, err = s.send(ctx, c.Group, c.Minutes); err != nil {
		return Result{}, err
	}
	defer p.client.Stop()
	defer p.watch(ctx)()
	pause(ctx, settled)
	failure := c.run(ctx, p)
	pause(ctx, settled)
	return p.result(ctx, c, story, failure)
}

// result is what it has cost. What the case did is checked after the client has stopped.
func (p *caseRun) result(ctx context.Context, c Case, story *harness.Story, failure error) (Result, error) {
	report, err := p.client.Stop()
	if err != nil {
		return Result{}, errors.Join(failure, err)
	}
	calls, err := p.calls(ctx)
	if err != nil {
		return Result{}, errors.Join(failure, err)
	}
	r := Result{Name: c.Name, Requests: report.Requests, Failed: report.Failed, Moves: moves(calls), Seed: p.Seed, Took: report.Elapsed, Report: report}
	if r.Failed > 0 || failure != nil {
		draws, err := p.account.admin.Draws(ctx, p.drawn)
		if err != nil {
			return Result{}, errors.Join(failure, err)
		}
		r.Story = happened(story, calls, draws) + "\n" + p.broken(ctx)
	}
	if report.Rate < leastRate {
		err = fmt.Errorf("only %.0f requests a second were sent instead of %d: is this machine busy otherwise?", report.Rate, leastRate)
	}
	return r, errors.Join(failure, err)
}

// calls are those since the case began.
func (p *caseRun) calls(ctx context.Context) ([]api.Call, error) {
	return p.account.admin.Calls(ctx, p.before)
}

// happened is the story of a fleet beside the calls and what was drawn.
func happened(story *harness.Story, calls []api.Call, draws []cloud.Draw) string {
	lines := append(story.Lines(), told(calls)...)
	for _, d := range draws {
		lines = append(lines, d.From.Format(storyTime)+" "+d.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// broken tells of which targets connections ended before their time, and by whom.
func (p *caseRun) broken(ctx context.Context) string {
	truth, err := p.account.admin.Truth(ctx)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, t := range truth.Targets {
		if t.Failed > 0 || t.Cut > 0 {
			lines = append(lines, fmt.Sprintf("%v, of all cases so far: %d connections were not accepted, %d were reset by the load balancer", t.Target, t.Failed, t.Cut))
		}
	}
	return strings.Join(lines, "\n")
}

// watch tells every few seconds how far the case is, until the function that it returns
// is called.
func (p *caseRun) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	begun := time.Now()
	var done sync.WaitGroup
	done.Go(func() {
		drawn := p.drawn
		for pause(ctx, linesEvery); ctx.Err() == nil; pause(ctx, linesEvery) {
			drawn += p.printDraws(ctx, drawn)
			fmt.Fprintf(p.Log, "%5.0f s  %s | %s | %s\n", time.Since(begun).Seconds(), p.rollout(ctx), p.targets(ctx), p.requests())
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// printDraws prints when each node of the load balancer stops sending to a target that
// left, of the draws after the first n, and returns how many draws there are more.
func (p *caseRun) printDraws(ctx context.Context, n int) int {
	draws, err := p.account.admin.Draws(ctx, n)
	if err != nil {
		return 0
	}
	for _, d := range draws {
		if d.What == "ends" {
			fmt.Fprintln(p.Log, "        ", d)
		}
	}
	return len(draws)
}

func (p *caseRun) rollout(ctx context.Context) string {
	set, err := p.fleet.Set(ctx)
	if err != nil {
		return "the API server does not answer"
	}
	parts := []string{fmt.Sprintf("%d of %d nodes serve, %d are updated", set.Status.ServingNodes, set.Status.DesiredNodes, set.Status.UpdatedNodes)}
	for _, n := range set.Status.Nodes {
		parts = append(parts, fmt.Sprintf("%s %s", n.Name, n.State))
	}
	return strings.Join(parts, ", ")
}

// targets says how many really get new connections, of which AWS says nothing.
func (p *caseRun) targets(ctx context.Context) string {
	truth, err := p.account.admin.Truth(ctx)
	if err != nil {
		return "the load balancer does not answer"
	}
	taking := 0
	for _, t := range truth.Targets {
		if t.Taking && strings.Contains(t.Group, ":targetgroup/"+p.fleet.Key.Namespace+"/") {
			taking++
		}
	}
	return fmt.Sprintf("%d targets get connections", taking)
}

func (p *caseRun) requests() string {
	now := p.client.Snapshot()
	return fmt.Sprintf("%d requests, %d failed", now.Requests, now.Failed)
}
