package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// result is one line: what a case took.
type result struct {
	Case  string `json:"case"`
	Kind  string `json:"kind"`
	Nodes int    `json:"nodes"`
	// Seconds is the median of Rounds.
	Seconds float64   `json:"seconds"`
	Rounds  []float64 `json:"rounds"`
	// TimesNative and TimesBaseline compare Seconds with those of the DaemonSets and of
	// the same writes to plain Deployments without us; CPUTimesNative and
	// CPUTimesBaseline the CPU time of all programs together, which a busy machine
	// distorts less.
	TimesNative      float64 `json:"timesNative,omitempty"`
	TimesBaseline    float64 `json:"timesFloor,omitempty"`
	CPUTimesNative   float64 `json:"cpuTimesNative,omitempty"`
	CPUTimesBaseline float64 `json:"cpuTimesFloor,omitempty"`
	// CPUSeconds are those of each program, of which the controller's are ours.
	CPUSeconds map[string]float64 `json:"cpuSeconds"`
	// ControllerMsPerNode is the CPU time of our controller for each node.
	ControllerMsPerNode float64 `json:"controllerMsPerNode,omitempty"`
	ControllerPeakMB    float64 `json:"controllerPeakMB,omitempty"`
	// TimesSmallAPI compares the API server's CPU time for a node with that in the small
	// cluster.
	TimesSmallAPI float64 `json:"timesSmallAPI,omitempty"`
	// WritesPerNode is how often each user wrote to each resource, for each node.
	WritesPerNode map[string]map[string]float64 `json:"writesPerNode"`
	Bars          []bar                         `json:"bars,omitempty"`
}

// bar is what a figure may be at most.
type bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Met   bool    `json:"met"`
}

// summarize is the medians of the samples of a case.
func summarize(name, kind string, nodes int, samples []sample) *result {
	r := &result{
		Case: name, Kind: kind, Nodes: nodes, CPUSeconds: map[string]float64{}, WritesPerNode: map[string]map[string]float64{},
		Seconds: rounded(medianOf(samples, func(s sample) float64 { return s.seconds })),
	}
	for _, s := range samples {
		r.Rounds = append(r.Rounds, rounded(s.seconds))
	}
	for program := range samples[0].cpu {
		r.CPUSeconds[program] = rounded(medianOf(samples, func(s sample) float64 { return s.cpu[program] }))
	}
	r.ControllerMsPerNode = rounded(1000 * r.CPUSeconds["controller"] / float64(nodes))
	for user, resources := range samples[0].writes {
		for resource := range resources {
			n := rounded(medianOf(samples, func(s sample) float64 { return float64(s.writes[user][resource]) / float64(nodes) }))
			if n == 0 {
				continue
			}
			if r.WritesPerNode[user] == nil {
				r.WritesPerNode[user] = map[string]float64{}
			}
			r.WritesPerNode[user][resource] = n
		}
	}
	return r
}

// took is what a case took.
type took struct{ seconds, cpu float64 }

func cost(r *result) took {
	t := took{seconds: r.Seconds}
	for _, seconds := range r.CPUSeconds {
		t.cpu += seconds
	}
	return t
}

// against compares with what the same case took the others.
func (r *result) against(native, baseline took) {
	own := cost(r)
	r.TimesNative, r.CPUTimesNative = rounded(own.seconds/native.seconds), rounded(own.cpu/native.cpu)
	r.TimesBaseline, r.CPUTimesBaseline = rounded(own.seconds/baseline.seconds), rounded(own.cpu/baseline.cpu)
}

// barOfTime is on the time that native DaemonSets take, or the baseline where that
// takes longer (docs/adr/0009-bench-floor.md).
func (r *result) barOfTime() {
	if r.TimesBaseline < r.TimesNative {
		r.bar("times the same writes without us", r.TimesBaseline, maxTimes)
		return
	}
	r.bar("times native", r.TimesNative, maxTimes)
}

// barOfAPI is on the CPU time of the API server for a node, beside that of the same case
// in the small cluster: what it does for one node must not grow with the number of others
// by more than that of the same writes without us does (docs/adr/0009-bench-floor.md).
func (r *result) barOfAPI(small, baseline, smallBaseline *result) {
	node := func(r *result) float64 { return r.CPUSeconds["kube-apiserver"] / float64(r.Nodes) }
	r.TimesSmallAPI = rounded(node(r) / node(small))
	times, name := node(r)/node(small), "API server's CPU for a node, times that in the small cluster"
	if grown := node(baseline) / node(smallBaseline); grown > 1 {
		times, name = times/grown, name+", beside that of the same writes without us"
	}
	r.bar(name, times, maxTimesSmallAPI)
}

func (r *result) bar(name string, value, limit float64) {
	r.Bars = append(r.Bars, atMost(name, value, limit))
}

func atMost(name string, value, limit float64) bar {
	return bar{Name: name, Value: rounded(value), Limit: rounded(limit), Met: value <= limit}
}

func rounded(v float64) float64 { return math.Round(v*100) / 100 }

// report writes the results and remembers whether a bar was missed.
type report struct {
	out    io.Writer
	missed bool
	// small is what the large cluster's costs are compared with, largeBaseline what the same
	// writes without us cost there.
	small         costs
	largeBaseline work
}

// costs are of the same writes without us and of an IngressDaemonSet.
type costs struct {
	baseline, own work
	// frugal is what it takes to roll out ours with as little garbage as in a large fleet.
	frugal *result
}

// work is what is measured of a fleet in each cluster.
type work struct{ created, rolled *result }

func (r *report) add(results ...*result) error {
	for _, result := range results {
		if err := r.write(result, result.Case, result.Bars); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) write(result any, name string, bars []bar) error {
	line, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	fmt.Fprintln(r.out, string(line))
	for _, bar := range bars {
		verdict := "met"
		if !bar.Met {
			verdict, r.missed = "MISSED", true
		}
		fmt.Fprintf(os.Stderr, "%s: %s is %g, at most %g: %s\n", name, bar.Name, bar.Value, bar.Limit, verdict)
	}
	return nil
}
