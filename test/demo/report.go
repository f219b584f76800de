package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

type counts struct {
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed"`
	Seconds  float64 `json:"seconds"`
}

func (r result) counts() counts {
	return counts{r.traffic.Requests, r.traffic.Failed, math.Round(r.took.Seconds()*10) / 10}
}

// writeReport writes what the client has counted, and how long the roll-outs took.
func writeReport(file string, ours, theirs result) error {
	data, err := json.Marshal(struct {
		IngressDaemonSet counts `json:"ingressDaemonSet"`
		DaemonSet        counts `json:"daemonSet"`
	}{ours.counts(), theirs.counts()})
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// compare prints the two results side by side.
func compare(out io.Writer, ours, theirs result) {
	line := func(what string, value func(result) string) {
		fmt.Fprintf(out, "  %-28s %18s %18s\n", what, value(ours), value(theirs))
	}
	fmt.Fprintf(out, "  %-28s %18s %18s\n", "", "IngressDaemonSet", "native DaemonSet")
	line("requests", func(r result) string { return grouped(r.traffic.Requests) })
	line("failed", func(r result) string { return grouped(r.traffic.Failed) })
	for _, kind := range kinds(ours, theirs) {
		line("  "+string(kind), func(r result) string { return grouped(r.traffic.ByKind[kind]) })
	}
	line("requests a second", func(r result) string { return grouped(int64(r.traffic.Rate + 0.5)) })
	line("  in the slowest second", func(r result) string { return grouped(fewest(r.traffic)) })
	line("99% answered within, ms", func(r result) string {
		return fmt.Sprintf("%.1f", float64(r.traffic.Latency.P99)/float64(time.Millisecond))
	})
	line("writes to the API server", func(r result) string { return grouped(int64(r.writes)) })
	line("  of our controller", func(r result) string { return grouped(int64(r.ours)) })
	line("the roll-out took, s", func(r result) string { return fmt.Sprintf("%.1f", r.took.Seconds()) })
}

// kinds are the ways in which requests failed in either roll-out.
func kinds(ours, theirs result) []traffic.Kind {
	all := maps.Clone(theirs.traffic.ByKind)
	maps.Copy(all, ours.traffic.ByKind)
	return slices.Sorted(maps.Keys(all))
}

// fewest is the requests that started in the slowest second, of which the first
// and the last are not whole.
func fewest(r traffic.Report) int64 {
	least := int64(math.MaxInt64)
	for _, s := range r.Seconds[1:max(1, len(r.Seconds)-1)] {
		least = min(least, s.Requests)
	}
	return least
}

// verdict is the result in a sentence.
func verdict(ours, theirs result) string {
	return fmt.Sprintf("The IngressDaemonSet lost %s of %s requests, the native DaemonSet %s of %s.",
		grouped(ours.traffic.Failed), grouped(ours.traffic.Requests), grouped(theirs.traffic.Failed), grouped(theirs.traffic.Requests))
}
