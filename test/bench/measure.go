package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// sample is what one run of something cost.
type sample struct {
	seconds float64
	// cpu is CPU seconds by program, less what heartbeats would have cost anyway.
	cpu    map[string]float64
	writes writes
}

// measure runs f and tells what it cost everybody.
func (b *bench) measure(ctx context.Context, what string, f func(context.Context) error) (sample, error) {
	b.settle(ctx)
	fmt.Fprintf(os.Stderr, "%s ... ", what)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from, sizeErr := auditSize(b.AuditLog())
	before, cpuErr := cpuSeconds(b.Dir())
	if sizeErr != nil || cpuErr != nil {
		return sample{}, fmt.Errorf("measuring: %w %w", sizeErr, cpuErr)
	}
	start := time.Now()
	if err := f(ctx); err != nil {
		return sample{}, fmt.Errorf("%s: %w", what, err)
	}
	s := sample{seconds: time.Since(start).Seconds()}
	fmt.Fprintf(os.Stderr, "%.1f s\n", s.seconds)
	// What is still to be done, such as status that follows, is part of the cost.
	b.settle(ctx)
	after, err := cpuSeconds(b.Dir())
	if err != nil {
		return sample{}, err
	}
	s.cpu = map[string]float64{}
	for program, seconds := range after {
		s.cpu[program] = seconds - before[program] - b.idle[program]*time.Since(start).Seconds()
	}
	to, err := auditSize(b.AuditLog())
	if err != nil {
		return sample{}, err
	}
	s.writes, err = countWrites(b.AuditLog(), from, to)
	return s, err
}

// observeIdle measures what each program uses in a second while nothing happens:
// thousands of nodes renew their leases, also during a rollout that takes longer. They
// were made in a burst, and so come in one: it is measured for two whole periods.
func (b *bench) observeIdle(ctx context.Context) error {
	during := max(20*time.Second, 2*b.HeartbeatPeriod())
	b.settle(ctx)
	before, err := cpuSeconds(b.Dir())
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(during):
	}
	after, err := cpuSeconds(b.Dir())
	if err != nil {
		return err
	}
	b.idle = map[string]float64{}
	for program, seconds := range after {
		b.idle[program] = (seconds - before[program]) / during.Seconds()
	}
	return nil
}

// patience bounds every measurement.
const patience = time.Hour

// settle waits until little is written to the API server any more, for some time
// at most.
func (b *bench) settle(ctx context.Context) {
	const (
		quiet   = 100 << 10
		longest = 30
	)
	last := int64(math.MinInt64 / 2)
	for range longest {
		size, err := auditSize(b.AuditLog())
		if err != nil || size-last < quiet {
			return
		}
		last = size
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// medianOf is the median of a figure of the samples.
func medianOf(samples []sample, figure func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return median(values)
}
