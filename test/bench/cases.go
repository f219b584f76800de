package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// The bars.
const (
	maxTimes            = 1.25
	maxDeploymentWrites = 3
	maxNodeWrites       = 2
	maxPeakMB           = 200
	maxTimesSmallCPU    = 1.5
	maxTimesSmallAPI    = 1.2
)

// compare measures the same on each kind of fleet, which stand beside each other
// and take turns, so that what else happens on the machine befalls all.
func (b *bench) compare(ctx context.Context, r *report, rounds int) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	native, own, baseline := &native{bench: b, kind: "native", pods: podsPerNode}, &ids{bench: b}, &plain{bench: b}
	created, err := b.createAll(ctx, rounds, native, baseline, own)
	if err != nil {
		return err
	}
	stood, err := b.stand(ctx, own, native.name()+", "+baseline.name()+" and "+own.name())
	if err != nil {
		return err
	}
	rolled, err := b.rollAll(ctx, rounds, native, baseline, marked{baseline}, own)
	if err != nil {
		return err
	}
	r.small = costs{baseline: work{created[1], rolled[2]}, own: work{created[2], rolled[3]}}
	rolled[3].bar("writes to a Deployment", rolled[3].WritesPerNode[controllerName]["deployments"], maxDeploymentWrites)
	detached, err := b.rollDetached(ctx, own)
	if err != nil {
		return err
	}
	if r.small.frugal, err = b.rollFrugally(ctx, own); err != nil {
		return err
	}
	return r.add(slices.Concat(created, []*result{stood}, rolled, []*result{detached, r.small.frugal})...)
}

// createAll creates the fleets in turn, several times, and leaves those of the
// last round.
func (b *bench) createAll(ctx context.Context, rounds int, daemonSets, deployments, own fleet) ([]*result, error) {
	out, err := b.create(ctx, rounds, daemonSets, b.withCheckers(deployments), own)
	if err != nil {
		return nil, err
	}
	for _, r := range out {
		r.against(cost(out[0]), cost(out[1]))
	}
	out[2].barOfTime()
	return out, nil
}

// create creates the fleets in turn, several times, and leaves those of the last round.
func (b *bench) create(ctx context.Context, rounds int, fleets ...fleet) ([]*result, error) {
	return b.takeTurns(rounds, "create", fleets, func(f fleet, round int) (sample, error) {
		if round > 1 {
			if err := f.remove(ctx); err != nil {
				return sample{}, fmt.Errorf("removing %s: %w", f.name(), err)
			}
		}
		return b.measure(ctx, fmt.Sprintf("creating %s, round %d", f.name(), round), func(ctx context.Context) error {
			return f.create(ctx, "0")
		})
	})
}

// rollAll rolls out each fleet in turn, several times.
func (b *bench) rollAll(ctx context.Context, rounds int, fleets ...fleet) ([]*result, error) {
	out, err := b.takeTurns(rounds, "roll out", fleets, func(f fleet, round int) (sample, error) {
		return b.measure(ctx, fmt.Sprintf("rolling out %s, round %d", f.name(), round), func(ctx context.Context) error {
			return f.roll(ctx, fmt.Sprintf("%s-%d", f.name(), round))
		})
	})
	if err != nil {
		return nil, err
	}
	for _, r := range out {
		r.against(cost(out[0]), cost(out[2]))
	}
	out[3].barOfTime()
	return out, nil
}

// takeTurns takes a sample of each fleet in each round, and summarizes them.
func (b *bench) takeTurns(rounds int, name string, fleets []fleet, take func(fleet, int) (sample, error)) ([]*result, error) {
	samples := make([][]sample, len(fleets))
	for round := range rounds {
		for i, f := range fleets {
			s, err := take(f, round+1)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
		}
	}
	var out []*result
	for i, f := range fleets {
		out = append(out, summarize(name, f.name(), b.nodes, samples[i]))
	}
	return out, nil
}

// rollDetached rolls out with annotations on Nodes, which no detacher answers.
func (b *bench) rollDetached(ctx context.Context, f *ids) (*result, error) {
	err := f.change(ctx, func() {
		f.set.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{
			Key: v1alpha1.AnnotationNodeDetached, GracePeriodSeconds: new(int32),
		}
	})
	if err != nil {
		return nil, err
	}
	s, err := b.measure(ctx, "rolling out "+f.name()+" with annotated Nodes", func(ctx context.Context) error { return f.roll(ctx, "detached") })
	if err != nil {
		return nil, err
	}
	out := summarize("roll out with annotated Nodes", f.name(), b.nodes, []sample{s})
	out.bar("writes to a Node", out.WritesPerNode[controllerName]["nodes"], maxNodeWrites)
	out.bar("writes to a Deployment", out.WritesPerNode[controllerName]["deployments"], maxDeploymentWrites)
	return out, nil
}

// withCheckers are Deployments with a DaemonSet beside them, as an IngressDaemonSet has
// health checkers beside its pods.
func (b *bench) withCheckers(deployments fleet) fleet {
	return together{deployments, &native{bench: b, kind: "checker-daemonset", pods: 1}}
}

// frugally is how much garbage the controller of the large fleet leaves lying, in percent of what it
// keeps, which is about 95 MiB (leastPercent in cmd/controller).
const frugally = "15"

// rollFrugally rolls out by a controller that collects garbage as one of a large fleet does, to
// compare with that what it takes there: how often it collects is set by how much memory it may take.
func (b *bench) rollFrugally(ctx context.Context, f *ids) (*result, error) {
	if err := b.controller.Signal(os.Interrupt); err != nil {
		return nil, err
	}
	if err := b.control(ctx, "GOGC="+frugally); err != nil {
		return nil, err
	}
	// That it is seen tells that the new one leads.
	if err := f.change(ctx, func() { f.set.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = nil }); err != nil {
		return nil, err
	}
	if err := b.observeIdle(ctx); err != nil {
		return nil, err
	}
	s, err := b.measure(ctx, "rolling out "+f.name()+" with little garbage", func(ctx context.Context) error { return f.roll(ctx, "frugal") })
	if err != nil {
		return nil, err
	}
	return summarize("roll out with little garbage", f.name(), b.nodes, []sample{s}), nil
}

// stand measures what everybody uses while the fleets that were created stand still: from
// here on that is not what a rollout costs.
func (b *bench) stand(ctx context.Context, own *ids, fleets string) (*result, error) {
	if err := own.settleCheckers(ctx); err != nil {
		return nil, err
	}
	if err := b.observeIdle(ctx); err != nil {
		return nil, err
	}
	minute := sample{seconds: 60, cpu: map[string]float64{}}
	for program, each := range b.idle {
		minute.cpu[program] = 60 * each
	}
	return summarize("stand still", fleets, b.nodes, []sample{minute}), nil
}

// growBaseline measures what the same writes without us need where there are many nodes. Of a
// creation there, as in the small cluster, the median of several rounds counts: how often the
// simulated nodes write the status of their pods differs by half from one to the next
// (docs/adr/0009-bench-floor.md).
func (b *bench) growBaseline(ctx context.Context, r *report, rounds int) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	baseline := &plain{bench: b}
	created, err := b.create(ctx, rounds, b.withCheckers(baseline))
	if err != nil {
		return err
	}
	rolled, err := b.once(ctx, "roll out", marked{baseline}, func(ctx context.Context, f fleet) error { return f.roll(ctx, "1") })
	if err != nil {
		return err
	}
	r.largeBaseline = work{created[0], rolled}
	return r.add(created[0], rolled)
}

// grow measures what the controller needs where there are many nodes.
func (b *bench) grow(ctx context.Context, r *report, rounds int) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	own := &ids{bench: b}
	created, err := b.create(ctx, rounds, own)
	if err != nil {
		return err
	}
	stood, err := b.stand(ctx, own, own.name())
	if err != nil {
		return err
	}
	rolled, err := b.once(ctx, "roll out", own, func(ctx context.Context, f fleet) error { return f.roll(ctx, "1") })
	if err != nil {
		return err
	}
	if rolled.ControllerPeakMB, err = peakMB(b.controller.Pid); err != nil {
		return err
	}
	rolled.bar("controller's peak MB", rolled.ControllerPeakMB, maxPeakMB)
	if small := r.small.own; small.rolled != nil {
		rolled.bar("controller's CPU for a node, times that in the small cluster with as little garbage", rolled.ControllerMsPerNode/r.small.frugal.ControllerMsPerNode, maxTimesSmallCPU)
		created[0].barOfAPI(small.created, r.largeBaseline.created, r.small.baseline.created)
		rolled.barOfAPI(small.rolled, r.largeBaseline.rolled, r.small.baseline.rolled)
	}
	return r.add(created[0], stood, rolled)
}

// once measures one run of something on all nodes.
func (b *bench) once(ctx context.Context, name string, f fleet, do func(context.Context, fleet) error) (*result, error) {
	what := fmt.Sprintf("%s %s on %d nodes", name, f.name(), b.nodes)
	s, err := b.measure(ctx, what, func(ctx context.Context) error { return do(ctx, f) })
	if err != nil {
		return nil, err
	}
	return summarize(name, f.name(), b.nodes, []sample{s}), nil
}
