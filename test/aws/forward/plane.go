// Package forward is the data plane of the emulator of AWS: it listens where the load balancers
// listen, sends each flow to the target that the model picks, checks the targets' health and
// resets the flows that AWS would reset. A flow of TCP goes through this process; requests of HTTP
// go through HAProxy, which is told from here what to send where. Neither tries anything
// twice.
package forward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// tick is how late the data plane may be after the model.
const tick = 20 * time.Millisecond

// Options of a data plane.
type Options struct {
	HAProxy string // default /usr/sbin/haproxy; needed for HTTP listeners
	Dir     string // for HAProxy's files: a short path, since a socket is among them
}

// Plane is a running data plane.
type Plane struct {
	cloud   *cloud.Cloud
	options Options
	truth   *truth
	done    chan struct{}

	mu        sync.Mutex
	version   int                     // of the sockets
	listeners map[string]*tcpListener // by address
	proxies   map[string]*proxy       // by balancer

	flowing sync.Mutex
	flows   map[int]map[*flow]bool // of TCP, by registration
}

// Start starts the data plane. It ends with ctx.
func Start(ctx context.Context, c *cloud.Cloud, options Options) (*Plane, error) {
	p := &Plane{
		cloud: c, options: options, truth: newTruth(), done: make(chan struct{}), version: -1,
		listeners: map[string]*tcpListener{}, proxies: map[string]*proxy{}, flows: map[int]map[*flow]bool{},
	}
	if err := p.Apply(); err != nil {
		p.stop()
		return nil, err
	}
	go p.run(ctx)
	return p, nil
}

// Done is closed when everything has ended.
func (p *Plane) Done() <-chan struct{} { return p.done }

// Targets is where flows went, and whether more may come. What is no longer taking gets
// no new flow, however the data plane lags behind the model.
func (p *Plane) Targets() []Traffic {
	targets, now := p.truth.targets(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range targets {
		t := &targets[i]
		t.Taking = p.cloud.Taking(t.Group, t.Target, now) || p.cloud.Taking(t.Group, t.Target, now.Add(-5*tick))
		for _, x := range p.proxies {
			t.Taking = t.Taking || x.sendsTo(t.Group, t.Target)
		}
	}
	return targets
}

// Refused are the connections of TCP for which there was no target, by the address that
// they came to.
func (p *Plane) Refused() map[string]int { return p.truth.refusals() }

func (p *Plane) run(ctx context.Context) {
	defer close(p.done)
	defer p.stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			p.step(ctx, now)
		}
	}
}

func (p *Plane) step(ctx context.Context, now time.Time) {
	for _, due := range p.cloud.Probes(now) {
		go func() {
			result := probe(ctx, due)
			p.cloud.Checked(due.Number, result, time.Now())
		}()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut(now)
	for _, x := range p.proxies {
		x.follow(now)
	}
	// HAProxy's counts are a little old, so what left just now is left alone.
	for _, number := range p.cloud.Leaving(now.Add(-2 * countEvery)) {
		if !p.busy(number) {
			p.cloud.Idle(number, now)
		}
	}
}

// cut resets the flows that AWS would reset.
func (p *Plane) cut(now time.Time) {
	p.flowing.Lock()
	defer p.flowing.Unlock()
	for number, flows := range p.flows {
		cuts := p.cloud.Cuts(number)
		for f := range flows {
			if cloud.Cut(cuts, f.opened, now) && f.reset() {
				p.truth.cut(f.lease)
			}
		}
	}
}

// busy reports whether a registration has open flows.
func (p *Plane) busy(number int) bool {
	for _, x := range p.proxies {
		if x.busy(number) {
			return true
		}
	}
	p.flowing.Lock()
	defer p.flowing.Unlock()
	return len(p.flows[number]) > 0
}

// Apply makes the listening sockets those of the model. Sockets that stay keep their flows.
func (p *Plane) Apply() error {
	sockets, version := p.cloud.Sockets()
	p.mu.Lock()
	defer p.mu.Unlock()
	if version == p.version {
		return nil
	}
	if err := errors.Join(p.applyTCP(sockets), p.applyHTTP(sockets)); err != nil {
		return err
	}
	p.version = version
	return nil
}

func (p *Plane) applyTCP(sockets []cloud.Socket) error {
	wanted := map[string]cloud.Socket{}
	for _, s := range sockets {
		if s.Protocol == "TCP" {
			wanted[s.Address] = s
		}
	}
	for address, l := range p.listeners {
		if s, stays := wanted[address]; !stays || s != l.socket {
			l.listener.Close()
			delete(p.listeners, address)
		}
	}
	var failed []error
	for _, address := range slices.Sorted(maps.Keys(wanted)) {
		if p.listeners[address] != nil {
			continue
		}
		l, err := p.listen(wanted[address])
		if err != nil {
			failed = append(failed, fmt.Errorf("listening at %s: %w", address, err))
			continue
		}
		p.listeners[address] = l
	}
	return errors.Join(failed...)
}

func (p *Plane) applyHTTP(sockets []cloud.Socket) error {
	wanted := map[string][]cloud.Socket{}
	for _, s := range sockets {
		if s.Protocol == "HTTP" {
			wanted[s.Balancer] = append(wanted[s.Balancer], s)
		}
	}
	for balancer, x := range p.proxies {
		if !slices.Equal(x.sockets, wanted[balancer]) {
			x.stop()
			delete(p.proxies, balancer)
		}
	}
	var failed []error
	for _, balancer := range slices.Sorted(maps.Keys(wanted)) {
		if p.proxies[balancer] != nil {
			continue
		}
		x, err := startProxy(p, wanted[balancer])
		if err != nil {
			failed = append(failed, fmt.Errorf("HAProxy for %s: %w", balancer, err))
			continue
		}
		p.proxies[balancer] = x
	}
	return errors.Join(failed...)
}

func (p *Plane) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.listeners {
		l.listener.Close()
	}
	for _, x := range p.proxies {
		x.stop()
	}
	p.flowing.Lock()
	defer p.flowing.Unlock()
	for _, flows := range p.flows {
		for f := range flows {
			f.reset()
		}
	}
}
