package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// The bars.
const (
	maxTimesNative      = 1.5
	maxDeploymentWrites = 3
	maxNodeWrites       = 2
	maxPeakMB           = 250
	maxTimesSmallCPU    = 1.5
)

// compare measures the same on each kind of fleet, which stand beside each other
// and take turns, so that what else happens on the machine befalls all.
func (b *bench) compare(ctx context.Context, r *report, rounds int) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	own := &ids{bench: b}
	fleets := []fleet{&native{bench: b}, &plain{bench: b}, own}
	var created, rolled []*result
	for _, f := range fleets {
		s, err := b.measure(ctx, "creating "+f.name(), func(ctx context.Context) error { return f.create(ctx, "0") })
		if err != nil {
			return err
		}
		created = append(created, summarize("create", f.name(), b.nodes, []sample{s}))
	}
	if err := own.settleCheckers(ctx); err != nil {
		return err
	}
	samples := map[fleet][]sample{}
	for round := range rounds {
		for _, f := range fleets {
			s, err := b.measure(ctx, fmt.Sprintf("rolling out %s, round %d", f.name(), round+1), func(ctx context.Context) error {
				return f.roll(ctx, fmt.Sprint(round+1))
			})
			if err != nil {
				return err
			}
			samples[f] = append(samples[f], s)
		}
	}
	for _, f := range fleets {
		rolled = append(rolled, summarize("roll out", f.name(), b.nodes, samples[f]))
	}
	for _, results := range [][]*result{created, rolled} {
		floor, ours := results[1], results[2]
		floor.against(results[0], floor)
		ours.against(results[0], floor)
		ours.bar("times native", ours.TimesNative, maxTimesNative)
		fmt.Fprintf(os.Stderr, "%s: plain Deployments take %g times native (CPU %g), the IngressDaemonSet %g times those (CPU %g)\n",
			ours.Case, floor.TimesNative, floor.CPUTimesNative, ours.TimesFloor, ours.CPUTimesFloor)
	}
	r.small = rolled[2]
	r.small.bar("writes to a Deployment", r.small.WritesPerNode[controllerName]["deployments"], maxDeploymentWrites)
	detached, err := b.rollDetached(ctx, own)
	if err != nil {
		return err
	}
	return r.add(append(append(created, rolled...), detached)...)
}

// rollDetached rolls out with annotations on Nodes, which no detacher answers.
func (b *bench) rollDetached(ctx context.Context, f *ids) (*result, error) {
	err := f.change(ctx, func() {
		f.set.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{
			Key: "example.com/detach", GracePeriodSeconds: new(int32),
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

// grow measures what the controller needs where there are many nodes.
func (b *bench) grow(ctx context.Context, r *report) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	f := &ids{bench: b}
	s, err := b.measure(ctx, fmt.Sprintf("creating %s on %d nodes", f.name(), b.nodes), func(ctx context.Context) error { return f.create(ctx, "0") })
	if err != nil {
		return err
	}
	created := summarize("create", f.name(), b.nodes, []sample{s})
	if err := f.settleCheckers(ctx); err != nil {
		return err
	}
	s, err = b.measure(ctx, fmt.Sprintf("rolling out %s on %d nodes", f.name(), b.nodes), func(ctx context.Context) error { return f.roll(ctx, "1") })
	if err != nil {
		return err
	}
	rolled := summarize("roll out", f.name(), b.nodes, []sample{s})
	if rolled.ControllerPeakMB, err = peakMB(b.controller.Pid); err != nil {
		return err
	}
	rolled.bar("controller's peak MB", rolled.ControllerPeakMB, maxPeakMB)
	if r.small != nil {
		rolled.bar("controller's CPU for a node, times that in the small cluster", rolled.ControllerMsPerNode/r.small.ControllerMsPerNode, maxTimesSmallCPU)
	}
	return r.add(created, rolled)
}
