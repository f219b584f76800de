package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
)

// tryEvery is how often it is tried to listen where that was not possible.
const tryEvery = time.Second

// ports has a server listen where its table says, and keeps where it cannot.
type ports struct {
	server *proxy.Server
	log    *slog.Logger

	// mu is held while the server opens listeners, so that what came of it is noted in that order.
	mu sync.Mutex
	// reasons are why ports of the table are not listened at. It is replaced, never changed.
	reasons map[uint16]string
}

// apply takes a transaction.
func (p *ports) apply(c table.Changes) table.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	result, unavailable := p.server.Apply(c)
	p.note(unavailable)
	return result
}

// keepTrying tries ports that are not listened at, until the context ends.
func (p *ports) keepTrying(ctx context.Context) {
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.try()
		case <-ctx.Done():
			return
		}
	}
}

func (p *ports) try() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reasons) > 0 {
		p.note(p.server.Listen())
	}
}

// note takes where the server cannot listen, and says what is new of it.
func (p *ports) note(unavailable []proxy.Unavailable) {
	before := p.reasons
	p.reasons = make(map[uint16]string, len(unavailable))
	for _, u := range unavailable {
		reason := reasonOf(u.Err)
		if p.reasons[u.Port] = reason; before[u.Port] != reason {
			p.log.Warn("a port cannot be listened at, it is tried again every second", "port", u.Port, "error", reason)
		}
	}
	listening := p.server.Addresses()
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

// listenSoon tries until it can listen, or the context ends: nil then. It is said once that it cannot.
func listenSoon(ctx context.Context, log *slog.Logger, cannot string, listen func() (net.Listener, error)) net.Listener {
	for said := ""; ; {
		l, err := listen()
		if err == nil {
			return l
		}
		if said != err.Error() {
			log.Warn(cannot, "error", err)
		}
		said = err.Error()
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return nil
		}
	}
}
