package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// kind is one of the changes that are measured: each is to another host than the one before, and none is made twice.
type kind struct {
	name   string
	change func(i int) (set []wire.Resource, removed string)
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
	for _, k := range kindsOf(listener, pods) {
		if err := c.hold(k, max(o.rounds, leastRounds), r); err != nil {
			return fmt.Errorf("a change of %s: %w", k.name, err)
		}
	}
	return nil
}

func kindsOf(listener wire.Resource, pods []net.Addr) []kind {
	return []kind{
		{"endpoints", func(i int) ([]wire.Resource, string) {
			return backendOf(backendNumber(i%manyHosts), pods[:1+i/manyHosts%2])[:1], ""
		}},
		{"a route", func(i int) ([]wire.Resource, string) {
			route := routeTo(hostNumber(i%manyHosts), smallPath, backendNumber(i%manyHosts), listener)
			route.Route.Timeout = uint32(1 + i)
			return []wire.Resource{route}, ""
		}},
		{"a host that comes or goes", func(i int) ([]wire.Resource, string) {
			route := routeTo(fmt.Sprintf("new-%d.example.com", i/2), smallPath, backendNumber(i%manyHosts), listener)
			if i%2 == 1 {
				return nil, wire.NameOf(route)
			}
			return []wire.Resource{route}, ""
		}},
	}
}

// hold measures a kind of change, and holds it to its bars.
func (c changing) hold(k kind, rounds int, r *report) error {
	result := &changeResult{Case: "proxy-change", Kind: k.name, Hosts: manyHosts}
	next := 0
	err := quietly("proxy-change: "+k.name, func(run int) (spread float64, err error) {
		result.Runs = run
		var micros, kib []float64
		for range rounds {
			cpu, allocated, err := c.measure(k, next)
			if err != nil {
				return 0, err
			}
			micros, kib, next = append(micros, cpu), append(kib, allocated), next+changesEach
		}
		result.CPUMicros, result.AllocatedKiB = figuresOf(micros), rounded(median(kib))
		return result.CPUMicros.Spread, nil
	})
	if err != nil {
		return err
	}
	result.Bars = []bar{
		atMost("CPU µs of a change of "+k.name, result.CPUMicros.Median, maxChangeMicros),
		atMost("KiB allocated by it", result.AllocatedKiB, maxChangeKiB),
		atMost("spread of its rounds", result.CPUMicros.Spread, maxSpread),
	}
	return r.write(result, result.Case, result.Bars)
}

// measure makes the changes of a round, from a number on: what one takes of processor time and memory. All messages
// are there before.
func (c changing) measure(k kind, from int) (micros, kib float64, err error) {
	messages := make([]wire.Response, changesEach)
	for i := range messages {
		set, removed := k.change(from + i)
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
