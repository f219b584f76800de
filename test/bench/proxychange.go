package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

const (
	// changesEach is how many changes a round has, so many that about as much garbage is collected in each.
	changesEach = 20_000
	// What one change may take in a proxy of many hosts.
	maxChangeMicros = 100
	maxChangeKiB    = 64
)

// changeResult is one line: what a change takes in a proxy, from the message to its answer.
type changeResult struct {
	Case  string `json:"case"`
	Kind  string `json:"kind"`
	Hosts int    `json:"hosts"`
	// CPUMicros is the processor time, that of the garbage collector too, AllocatedKiB the memory.
	CPUMicros    figures `json:"cpuMicros"`
	AllocatedKiB float64 `json:"allocatedKiB"`
	Runs         int     `json:"runs"`
	Bars         []bar   `json:"bars"`
}

// changing is what a proxy is made of that takes changes, in this process.
type changing struct {
	server   *proxy.Server
	holdings *holdings.Holdings
}

// proxyChange measures changes of a proxy of many hosts.
func proxyChange(_ context.Context, o options, r *report) error {
	at, err := freePorts()
	if err != nil {
		return err
	}
	c := changing{proxy.NewServer(proxy.Defaults()), holdings.New()}
	defer c.server.Close()
	listener, pods := listenerAt(at.plain), endpoints(smallBody)
	all, err := message(tableOf(manyHosts, listener, pods))
	if err == nil {
		err = c.take(all)
	}
	if err != nil {
		return err
	}
	// Each change is to another host than the one before, and is none that was made before.
	kinds := []struct {
		name   string
		change func(i int) (set []wire.Resource, removed string)
	}{
		{"endpoints", func(i int) ([]wire.Resource, string) {
			return backendOf(backendNumber(i%manyHosts), pods[:1+i/manyHosts%2])[:1], ""
		}},
		{"route", func(i int) ([]wire.Resource, string) {
			route := routeTo(hostNumber(i%manyHosts), smallPath, backendNumber(i%manyHosts), listener)
			route.Route.Timeout = uint32(1 + i)
			return []wire.Resource{route}, ""
		}},
		{"new host or removed", func(i int) ([]wire.Resource, string) {
			route := routeTo(fmt.Sprintf("new-%d.example.com", i/2), smallPath, backendNumber(i%manyHosts), listener)
			if i%2 == 1 {
				return nil, wire.NameOf(route)
			}
			return []wire.Resource{route}, ""
		}},
	}
	for _, kind := range kinds {
		result := &changeResult{Case: "proxy-change", Kind: kind.name, Hosts: manyHosts}
		next := 0
		err := quietly("proxy-change: "+kind.name, func(run int) (spread float64, err error) {
			result.Runs = run
			var micros, kib []float64
			for range max(o.rounds, leastRounds) {
				cpu, bytes, err := c.measure(func() ([]wire.Resource, string) { next++; return kind.change(next - 1) })
				if err != nil {
					return 0, err
				}
				micros, kib = append(micros, cpu), append(kib, bytes)
			}
			result.CPUMicros, result.AllocatedKiB = figuresOf(micros), rounded(median(kib))
			return result.CPUMicros.Spread, nil
		})
		if err != nil {
			return err
		}
		result.Bars = []bar{
			atMost("CPU µs of a change of "+kind.name, result.CPUMicros.Median, maxChangeMicros),
			atMost("KiB allocated by it", result.AllocatedKiB, maxChangeKiB),
			atMost("spread of its rounds", result.CPUMicros.Spread, maxSpread),
		}
		if err := r.write(result, result.Case, result.Bars); err != nil {
			return err
		}
	}
	return nil
}

// measure makes the changes of a round: what one takes of processor time and memory. All messages are there before.
func (c changing) measure(change func() ([]wire.Resource, string)) (micros, kib float64, err error) {
	messages := make([]wire.Response, changesEach)
	for i := range messages {
		set, removed := change()
		if messages[i], err = message(set); err != nil {
			return 0, 0, err
		}
		if removed != "" {
			messages[i].Removed = []string{removed}
		}
	}
	// A round begins without garbage, and pays for its own.
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun, err := cpuTime(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	for _, m := range messages {
		if err := c.take(m); err != nil {
			return 0, 0, err
		}
	}
	runtime.GC()
	ended, err := cpuTime(os.Getpid())
	runtime.ReadMemStats(&after)
	return (ended - begun).Seconds() * 1e6 / changesEach, float64(after.TotalAlloc-before.TotalAlloc) / 1024 / changesEach, err
}

// message tells resources as a controller does.
func message(set []wire.Resource) (wire.Response, error) {
	m := wire.Response{Position: "1", TypeURL: wire.TypeURL, Nonce: "1"}
	for _, r := range set {
		value, err := wire.Encode(r)
		if err != nil {
			return m, err
		}
		m.Resources = append(m.Resources, wire.Delivery{Name: wire.NameOf(r), Version: wire.Version(value), TypeURL: wire.TypeURL, Value: value})
	}
	return m, nil
}

// take has the proxy take a message, from its resources' bytes to its answer.
func (c changing) take(m wire.Response) error {
	answer := c.holdings.Take(m, func(changes table.Changes) table.Result {
		result, unavailable := c.server.Apply(changes)
		if len(unavailable) > 0 {
			result.Refused = append(result.Refused, table.Refusal{Name: "listener", Err: unavailable[0].Err})
		}
		return result
	})
	if answer.Error != nil {
		return errors.New(answer.Error.Message)
	}
	return nil
}
