package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// The bars of the proxy. Those of CPU are in times of what the same costs nginx, or one host.
const (
	maxTimesRequest   = 1.5
	maxTimesBody      = 1
	maxTimesHandshake = 1
	maxTimesHosts     = 1.15
	maxProxyMB        = 130
)

// How often a round does it: so often that the connections which each turn opens anew cost next to nothing beside.
const (
	requestsEach   = 60_000
	bodiesEach     = 2_000
	handshakesEach = 2_000
)

// besideNginx measures a case of a proxy and nginx, each of which does what do does at its ports.
func besideNginx(ctx context.Context, o options, r *report, c comparison, do func(context.Context, ports, int) error) error {
	start := func(ctx context.Context, p *proxies, at ports) (*running, error) {
		return p.startProxy(ctx, "proxy", p.example(at)...)
	}
	return startedBesideNginx(ctx, o.proxy, r, o.rounds, c, start, do)
}

// startedBesideNginx does so with what start starts of a package at ports.
func startedBesideNginx(ctx context.Context, pkg string, r *report, rounds int, c comparison,
	start func(context.Context, *proxies, ports) (*running, error), do func(context.Context, ports, int) error) error {
	return withProxies(ctx, pkg, func(ctx context.Context, p *proxies) error {
		other, otherAt, err := p.startNginx(ctx)
		if err != nil {
			return err
		}
		at, err := freePorts()
		if err != nil {
			return err
		}
		own, err := start(ctx, p, at)
		if err != nil {
			return err
		}
		c.own = side{own.name, func(ctx context.Context, times int) error { return do(ctx, at, times) }, own.cpu}
		c.other = side{other.name, func(ctx context.Context, times int) error { return do(ctx, otherAt, times) }, other.cpu}
		return c.compare(ctx, r, rounds)
	})
}

// example is what nginx.conf says, as it is told to the proxy.
func (p *proxies) example(at ports) []wire.Resource {
	plain, secured := listenerAt(at.plain), listenerAt(at.tls, "web")
	all := []wire.Resource{plain, secured, {Name: "web", Certificate: &wire.Certificate{Chain: p.certificate.Chain, Key: p.certificate.Key}}}
	all = append(append(all, backendOf("small", p.small)...), backendOf("large", p.large)...)
	for _, listener := range []wire.Resource{plain, secured} {
		for path, backend := range map[string]string{smallPath: "small", largePath: "large"} {
			route := routeTo(exampleHost, path, backend, listener)
			route.Name += " " + listener.Name
			all = append(all, route)
		}
	}
	return all
}

// proxyRequest is a small GET on a connection that stays open.
func proxyRequest(ctx context.Context, o options, r *report) error {
	c := comparison{name: "proxy-request", times: requestsEach, limit: maxTimesRequest}
	return besideNginx(ctx, o, r, c, func(ctx context.Context, at ports, times int) error {
		return get(at, smallPath, smallBody).send(ctx, times)
	})
}

// proxyFloor is the same GET at the least that a proxy made of net/http's Server takes (docs/adr/0038).
func proxyFloor(ctx context.Context, o options, r *report) error {
	start := func(ctx context.Context, p *proxies, at ports) (*running, error) {
		plain, _ := at.addresses()
		bare, err := p.start("bare", exec.CommandContext(ctx, p.program, "--address="+plain, "--endpoints="+joined(p.small)))
		if err != nil {
			return nil, err
		}
		return bare, bare.awaitPort(ctx, plain)
	}
	c := comparison{name: "proxy-floor", times: requestsEach}
	return startedBesideNginx(ctx, "./test/bench/bare", r, o.rounds, c, start, func(ctx context.Context, at ports, times int) error {
		return get(at, smallPath, smallBody).send(ctx, times)
	})
}

func joined(addresses []net.Addr) string {
	var all []string
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return strings.Join(all, ",")
}

// proxyBody is a GET whose answer has a mebibyte.
func proxyBody(ctx context.Context, o options, r *report) error {
	c := comparison{name: "proxy-body", times: bodiesEach, limit: maxTimesBody}
	return besideNginx(ctx, o, r, c, func(ctx context.Context, at ports, times int) error {
		return get(at, largePath, largeBody).send(ctx, times)
	})
}

func get(at ports, path string, length int) requests {
	plain, _ := at.addresses()
	return requests{plain, path, func(int) string { return exampleHost }, length}
}

// proxyHandshake is a full handshake of TLS 1.3, with the connection that it is on.
func proxyHandshake(ctx context.Context, o options, r *report) error {
	c := comparison{name: "proxy-handshake", times: handshakesEach, limit: maxTimesHandshake}
	return besideNginx(ctx, o, r, c, func(ctx context.Context, at ports, times int) error {
		_, secured := at.addresses()
		return handshakes(ctx, secured, exampleHost, times)
	})
}

// proxyHosts is the small GET at a proxy of many hosts, each in its turn, beside one of one host.
func proxyHosts(ctx context.Context, o options, r *report) error {
	return withProxies(ctx, o.proxy, func(ctx context.Context, p *proxies) error {
		many, err := p.ofHosts(ctx, "many-hosts", manyHosts)
		if err != nil {
			return err
		}
		one, err := p.ofHosts(ctx, "one-host", 1)
		if err != nil {
			return err
		}
		return comparison{name: "proxy-hosts", times: requestsEach, own: many, other: one, limit: maxTimesHosts}.compare(ctx, r, o.rounds)
	})
}

// ofHosts is a proxy of so many hosts, which are asked for in turn.
func (p *proxies) ofHosts(ctx context.Context, name string, hosts int) (side, error) {
	at, err := freePorts()
	if err != nil {
		return side{}, err
	}
	process, err := p.startProxy(ctx, name, tableOf(hosts, listenerAt(at.plain), p.small)...)
	if err != nil {
		return side{}, err
	}
	return side{name, spread(at, hosts).send, process.cpu}, nil
}

// spread are small GETs for so many hosts, in an order that caches do not know.
func spread(at ports, hosts int) requests {
	plain, _ := at.addresses()
	return requests{plain, smallPath, func(i int) string { return hostNumber(i * 7919 % hosts) }, smallBody}
}

// memoryResult is one line: how much memory a process takes.
type memoryResult struct {
	Case  string `json:"case"`
	Hosts int    `json:"hosts"`
	// Streams are those of proxies, which a controller has.
	Streams int `json:"streams,omitempty"`
	// ResidentMB is what it has at the end, PeakMB the most that it has had.
	ResidentMB float64 `json:"residentMB"`
	PeakMB     float64 `json:"peakMB"`
	Bars       []bar   `json:"bars"`
}

// proxyMemory is what a proxy of many hosts takes that all had requests, with what it took to be told of them and
// to write its snapshots.
func proxyMemory(ctx context.Context, o options, r *report) error {
	return withProxies(ctx, o.proxy, func(ctx context.Context, p *proxies) error {
		at, err := freePorts()
		if err != nil {
			return err
		}
		process, err := p.startProxy(ctx, "proxy", tableOf(manyHosts, listenerAt(at.plain), p.small)...)
		if err != nil {
			return err
		}
		for round := range 3 {
			begun := time.Now()
			if err := p.teller.tell(ctx, "proxy", backendOf(backendNumber(round), p.small[:1])); err != nil {
				return err
			}
			if err := spread(at, manyHosts).send(ctx, 2*manyHosts); err != nil {
				return err
			}
			if err := awaitSnapshot(ctx, filepath.Join(p.dir, "proxy", "snapshot"), begun); err != nil {
				return err
			}
		}
		return reportMemory(r, &memoryResult{Case: "proxy-memory", Hosts: manyHosts}, process.process.Pid, maxProxyMB)
	})
}

// reportMemory holds the peak of a process to a bar.
func reportMemory(r *report, result *memoryResult, pid int, limit float64) (err error) {
	if result.ResidentMB, err = memoryMB(pid, "VmRSS:"); err != nil {
		return err
	}
	if result.PeakMB, err = memoryMB(pid, "VmHWM:"); err != nil {
		return err
	}
	result.ResidentMB, result.PeakMB = rounded(result.ResidentMB), rounded(result.PeakMB)
	result.Bars = []bar{atMost("peak MB", result.PeakMB, limit)}
	return r.write(result, result.Case, result.Bars)
}

// awaitSnapshot waits for one that was written after a moment.
func awaitSnapshot(ctx context.Context, dir string, begun time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := until(ctx, func() (bool, error) {
		files, err := os.ReadDir(dir)
		if err != nil {
			return false, err
		}
		for _, file := range files {
			if info, err := file.Info(); err == nil && info.ModTime().After(begun) {
				return true, nil
			}
		}
		return false, errors.New("there is none")
	})
	if err != nil {
		return fmt.Errorf("waiting for a snapshot: %w", err)
	}
	return nil
}
