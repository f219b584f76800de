package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	// leastRounds is how many rounds there are at least, turns how often two sides take turns in each.
	leastRounds = 5
	turns       = 10
	// A case is measured again where its rounds are farther apart than maxSpread, maxRuns times in all.
	maxSpread = 0.1
	maxRuns   = 3
)

// side is one of two that do the same.
type side struct {
	name string
	// do does it that many times, cpu is the processor time that the side has used, the kernel's for it too.
	do  func(ctx context.Context, times int) error
	cpu func() (time.Duration, error)
}

// comparison is of what the same costs two sides.
type comparison struct {
	name string
	// times is how often each side does it in a round.
	times      int
	own, other side
	// limit is how much it may cost us at most, in times of what it costs the other, 0 where there is no bar.
	limit float64
}

// figures are one figure of several rounds. Its spread is how far the largest is from the smallest, in parts of
// the median.
type figures struct {
	Median float64   `json:"median"`
	Spread float64   `json:"spread"`
	Rounds []float64 `json:"rounds"`
}

func figuresOf(rounds []float64) figures {
	middle := median(rounds)
	f := figures{Median: rounded(middle), Spread: rounded((slices.Max(rounds) - slices.Min(rounds)) / middle)}
	for _, each := range rounds {
		f.Rounds = append(f.Rounds, rounded(each))
	}
	return f
}

// comparedResult is one line: what a case cost both sides.
type comparedResult struct {
	Case string `json:"case"`
	// Operations is how many there were in a round of each side.
	Operations int `json:"operations"`
	// CPUMicros is the processor time of one, by side.
	CPUMicros map[string]figures `json:"cpuMicros"`
	// Times is what it cost us, in times of what it cost the other side in the same round.
	Times figures `json:"times"`
	// Runs is how often the case was measured until its rounds were close to each other.
	Runs int   `json:"runs"`
	Bars []bar `json:"bars"`
}

// compare measures a case until its rounds are close to each other, and holds it to its bar.
func (c comparison) compare(ctx context.Context, r *report, rounds int) error {
	result := &comparedResult{Case: c.name, Operations: c.times}
	err := quietly(c.name, func(run int) (spread float64, err error) {
		result.Runs = run
		err = c.measure(ctx, result, max(rounds, leastRounds))
		return result.Times.Spread, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	result.Bars = []bar{atMost("spread of its rounds", result.Times.Spread, maxSpread)}
	if c.limit > 0 {
		result.Bars = append(result.Bars, atMost(fmt.Sprintf("CPU of %s, times that of %s", c.own.name, c.other.name), result.Times.Median, c.limit))
	}
	return r.write(result, result.Case, result.Bars)
}

// quietly measures until the spread is small, a few times at most.
func quietly(name string, measure func(run int) (spread float64, err error)) error {
	for run := 1; ; run++ {
		spread, err := measure(run)
		if err != nil || spread <= maxSpread || run == maxRuns {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: the rounds are %.0f %% apart, and are measured again\n", name, 100*spread)
	}
}

// measure has both sides take turns in each round, each beginning every other one, so that what else happens on the
// machine befalls both.
func (c comparison) measure(ctx context.Context, result *comparedResult, rounds int) error {
	sides := []side{c.own, c.other}
	cost := map[string][]float64{}
	for _, s := range sides {
		if err := s.do(ctx, c.times/10); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	var times []float64
	for range rounds {
		spent := map[string]float64{}
		for range turns {
			for _, s := range sides {
				each, err := s.measure(ctx, c.times/turns)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				spent[s.name] += each / turns
			}
			slices.Reverse(sides)
		}
		for _, s := range sides {
			cost[s.name] = append(cost[s.name], spent[s.name])
		}
		times = append(times, spent[c.own.name]/spent[c.other.name])
	}
	result.Times, result.CPUMicros = figuresOf(times), map[string]figures{}
	for name, each := range cost {
		result.CPUMicros[name] = figuresOf(each)
		fmt.Fprintf(os.Stderr, "%s: %s takes %.1f µs\n", c.name, name, median(each))
	}
	return nil
}

// measure is the processor time of one operation, in microseconds.
func (s side) measure(ctx context.Context, times int) (float64, error) {
	before, err := s.cpu()
	if err != nil {
		return 0, err
	}
	if err := s.do(ctx, times); err != nil {
		return 0, err
	}
	after, err := s.cpu()
	return (after - before).Seconds() * 1e6 / float64(times), err
}
