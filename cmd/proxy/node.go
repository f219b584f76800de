package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
)

// reserved are the ports of the console and of metrics, which the proxies of the node share: a listener of the table
// could be opened there, too, and would get some of what is meant for these.
func (f flags) reserved() map[uint16]string {
	out := map[uint16]string{}
	for _, of := range []struct{ address, why string }{
		{f.metricsAddress, "it is that of metrics, see --metrics-address"},
		{f.console, "it is the console's, see --console"},
	} {
		if port, err := parsePort(portOf(of.address)); err == nil && port != 0 {
			out[port] = of.why
		}
	}
	return out
}

// portOf is empty where an address has none.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// shared is what answers for all proxies of the node, whichever of them is asked.
type shared interface {
	// Serve answers whoever asks at the port that they share, AnswerPeers the other ones, until the context ends.
	Serve(context.Context, net.Listener) error
	AnswerPeers(context.Context) error
}

// serveShared serves it until the context ends.
func serveShared(ctx context.Context, what, address string, s shared, log *slog.Logger) {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		serveAgain(ctx, log, "the part of "+what+" for the other proxies of the node", func() error { return s.AnswerPeers(ctx) })
	})
	serveAgain(ctx, log, what, func() error {
		l, err := proxy.ListenShared(address)
		if err != nil {
			return err
		}
		log.Info("listening", "for", what, "address", l.Addr())
		return s.Serve(ctx, l)
	})
}

// serveAgain serves until the context ends: where it cannot, or does not go on, it tries again every second. It is said
// once for as long as the reason is the same.
func serveAgain(ctx context.Context, log *slog.Logger, what string, serve func() error) {
	for said := ""; ; {
		err := serve()
		if ctx.Err() != nil {
			return
		}
		if text := fmt.Sprint(err); said != text {
			log.Warn(what+" cannot be served, it is tried again every second", "error", text)
			said = text
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return
		}
	}
}
