package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The two versions of the template.
const (
	oldVersion = "1"
	newVersion = "2"
)

// settled is how long traffic flows before and after the roll-out.
const settled = 2 * time.Second

// patience bounds one roll-out with all that belongs to it.
const patience = 5 * time.Minute

var errImpatient = fmt.Errorf("the roll-out took longer than %s", patience)

// proxies are nginx on every node, under a controller that rolls them out.
type proxies interface {
	// namespace is where they live.
	namespace() string
	// ports are what the load balancer asks.
	ports() harness.Ports
	// apply creates them and returns when they serve.
	apply(context.Context) error
	// change changes the template to another version.
	change(ctx context.Context, version string) error
	// look reads their state; nodes are to be filled in with pods.
	look(context.Context) (state, error)
	// checkClean is an error where the roll-out left something behind.
	checkClean(context.Context) error
}

// state is what the controller of proxies says.
type state struct {
	complete bool
	summary  string
	nodes    map[string]stateOfNode
	pods     map[types.UID]*corev1.Pod
}

type stateOfNode struct{ state, reason string }

// result is what a roll-out has cost.
type result struct {
	traffic traffic.Report
	// took is the time from the change of the template until its controller
	// called it complete.
	took time.Duration
	// writes are how often something was written meanwhile in their namespace, by
	// everybody; of these by our controller.
	writes, ours int
}

// rollout is one roll-out under traffic.
type rollout struct {
	harness *harness.Harness
	proxies proxies
	front   *lb.LB
	client  *traffic.Process
	screen  *screen
	meter   meter
	began   time.Time
	phase   string
}

// rollOutUnderTraffic rolls the proxies out under traffic, and cleans up behind them.
func rollOutUnderTraffic(ctx context.Context, s *harness.Harness, p proxies) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	run := &rollout{harness: s, proxies: p, screen: newScreen(os.Stdout)}
	if err := s.MakeNamespace(ctx, p.namespace()); err != nil {
		return result{}, err
	}
	if err := p.apply(ctx); err != nil {
		return result{}, err
	}
	var err error
	if run.front, err = s.Front(ctx, p.ports()); err != nil {
		return result{}, err
	}
	defer run.front.Stop()
	if run.client, err = s.Send(ctx, rate); err != nil {
		return result{}, err
	}
	defer run.client.Stop()
	out, err := run.rollOut(ctx)
	run.screen.leave()
	if err != nil {
		return result{}, errors.Join(err, context.Cause(ctx))
	}
	run.front.Stop()
	defer s.Step("removing it").Done()
	return out, s.RemoveNamespace(ctx, p.namespace())
}

// rollOut changes the template and checks what came of it.
func (r *rollout) rollOut(ctx context.Context) (result, error) {
	r.began = time.Now()
	r.phase = "before the change"
	before, err := r.steady(ctx)
	if err != nil {
		return result{}, err
	}
	if err := r.served(traffic.Snapshot{}, r.client.Snapshot(), oldVersion); err != nil {
		return result{}, fmt.Errorf("before the roll-out: %w", err)
	}
	r.phase = "rolling out"
	changed := time.Now()
	if err := r.proxies.change(ctx, newVersion); err != nil {
		return result{}, err
	}
	if _, err := r.watch(ctx, func(now state) (bool, error) { return now.complete, nil }); err != nil {
		return result{}, err
	}
	out := result{took: time.Since(changed)}
	r.phase = "after it"
	if _, err := r.watch(ctx, func(state) (bool, error) { return r.allUp() }); err != nil {
		return result{}, err
	}
	// A snapshot is up to half a second old: the first pause is for what was
	// answered before.
	if _, err := r.steady(ctx); err != nil {
		return result{}, err
	}
	last := r.client.Snapshot()
	after, err := r.steady(ctx)
	if err != nil {
		return result{}, err
	}
	if err := r.countWrites(&out, changed); err != nil {
		return result{}, err
	}
	if out.traffic, err = r.client.Stop(); err != nil {
		return result{}, err
	}
	return out, errors.Join(
		r.served(last, out.traffic.Snapshot, newVersion),
		replaced(before.pods, after.pods),
		enough(out.traffic),
		r.proxies.checkClean(ctx))
}

// countWrites counts what was written since the change, which the roll-out has cost the
// API server.
func (r *rollout) countWrites(out *result, changed time.Time) error {
	events, err := audit.Read(r.harness.AuditLog(), func(string) bool { return true })
	if err != nil {
		return err
	}
	for _, e := range audit.Writes(events) {
		if e.ObjectRef.Namespace != r.proxies.namespace() || e.Received.Before(changed) || strings.Contains(e.RequestURI, "dryRun=All") {
			continue
		}
		out.writes++
		if strings.HasSuffix(e.User.Username, ":ingress-daemonset-controller") {
			out.ours++
		}
	}
	return nil
}

// steady watches for a while.
func (r *rollout) steady(ctx context.Context) (state, error) {
	end := time.Now().Add(settled)
	return r.watch(ctx, func(state) (bool, error) { return time.Now().After(end), nil })
}

// watch shows what happens until done, and returns the last state.
func (r *rollout) watch(ctx context.Context, done func(state) (bool, error)) (state, error) {
	for {
		now, err := r.proxies.look(ctx)
		if err != nil {
			return now, err
		}
		if err := r.show(now); err != nil {
			return now, err
		}
		if ok, err := done(now); ok || err != nil {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-r.client.Done():
			_, err := r.client.Stop()
			return now, errors.Join(errors.New("the client stopped sending"), err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func (r *rollout) show(now state) error {
	servers, err := r.front.Servers()
	if err != nil {
		return err
	}
	f := frame{elapsed: time.Since(r.began), phase: r.phase, summary: now.summary, traffic: r.meter.read(r.client.Snapshot())}
	for _, n := range r.harness.Nodes() {
		said := now.nodes[n.Name()]
		f.nodes = append(f.nodes, row{
			name: n.Name(), balancer: balancer(servers, n.Name()), state: said.state, reason: said.reason,
			pods: describePods(now.pods, n.Name()),
		})
	}
	r.screen.show(f)
	return nil
}

// balancer is what the load balancer makes of a node, for both kinds of traffic.
func balancer(servers []lb.ServerState, node string) string {
	out := "out"
	for _, s := range servers {
		if s.Name == node && s.Status == lb.Up {
			out = "in"
		}
	}
	return out
}

func (r *rollout) allUp() (bool, error) {
	servers, err := r.front.Servers()
	return !slices.ContainsFunc(servers, func(s lb.ServerState) bool { return s.Status != lb.Up }), err
}
