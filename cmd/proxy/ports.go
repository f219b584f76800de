package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// tryEvery is how often it is tried to listen where that was not possible, tryFirst how soon after a transaction, and
// half as often each time: a port that goes from one IngressDaemonSet to another is free a moment later.
const (
	tryEvery = time.Second
	tryFirst = 50 * time.Millisecond
)

// ports has a server listen where its table says, and keeps where it cannot.
type ports struct {
	server *proxy.Server
	log    *slog.Logger

	// mu is held while the server opens listeners, so that what came of it is noted in that order.
	mu sync.Mutex
	// reasons are why ports of the table are not listened at, refused the listeners there, and missing those ports
	// without which no requests are to come. They are replaced, never changed.
	reasons, missing map[uint16]string
	refused          []table.Refusal
	// changed is called where other ports are not listened at, or for another reason, but for those of a transaction.
	changed func()
	// told holds one token where a transaction named a port that is not listened at.
	told chan struct{}
}

func newPorts(server *proxy.Server, log *slog.Logger) *ports {
	return &ports{server: server, log: log, told: make(chan struct{}, 1)}
}

// apply takes a transaction.
func (p *ports) apply(c table.Changes) table.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	result, unavailable := p.server.Apply(c)
	if p.note(unavailable); len(unavailable) > 0 {
		select {
		case p.told <- struct{}{}:
		default:
		}
	}
	return result
}

// keepTrying tries ports that are not listened at, also those whose listener has failed, until the context ends.
func (p *ports) keepTrying(ctx context.Context) {
	for wait := tryEvery; ; {
		select {
		case <-p.told:
			wait = tryFirst
		case <-time.After(wait):
			p.try()
			wait = min(2*wait, tryEvery)
		case <-ctx.Done():
			return
		}
	}
}

func (p *ports) try() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reasons
	if p.note(p.server.Listen()); !maps.Equal(before, p.reasons) {
		p.changed()
	}
}

// note takes where the server cannot listen, and says what is new of it.
func (p *ports) note(unavailable []proxy.Unavailable) {
	before, listening := p.reasons, p.server.Addresses()
	p.reasons, p.missing, p.refused = make(map[uint16]string, len(unavailable)), map[uint16]string{}, nil
	for _, u := range unavailable {
		reason := reasonOf(u.Err)
		if p.reasons[u.Port] = reason; before[u.Port] != reason {
			p.log.Warn("a port cannot be listened at, it is tried again every second", "port", u.Port, "error", reason)
		}
		// Whoever may make a Gateway chooses a port that another process has: no others are to lose theirs by it.
		needed := len(listening) == 0
		for _, l := range p.server.Proxy().Table().ListenersAt(u.Port) {
			needed = needed || l.Object.Kind == "IngressDaemonSet"
			p.refused = append(p.refused, table.Refusal{Name: wire.FullName(wire.KindListener, l.Name), Err: fmt.Errorf("port %d: %s", u.Port, reason)})
		}
		if needed {
			p.missing[u.Port] = reason
		}
	}
	for port := range before {
		if listening[port] != nil {
			p.log.Info("a port is listened at now", "port", port)
		}
	}
}

// reasonOf is what the kernel says, where it was the kernel.
func reasonOf(err error) string {
	if number, is := errors.AsType[syscall.Errno](err); is {
		return number.Error()
	}
	return err.Error()
}

// unavailable are ports of the table that are not listened at, and why.
func (p *ports) unavailable() map[uint16]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reasons
}

// needed are ports that are not listened at and without which no requests are to come, and why: those of Ingresses,
// and all where there is no other.
func (p *ports) needed() map[uint16]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// refusals are the listeners at ports that are not listened at.
func (p *ports) refusals() []table.Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}
