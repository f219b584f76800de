package main

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/console"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/subscription"
)

// reserved is the port of the console, which shares it with the other proxies of the node: a listener of the table
// could be opened there, too, and would get some of what is meant for the console.
func reserved(address string) map[uint16]string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	port, err := parsePort(text)
	if err != nil || port == 0 {
		return nil
	}
	return map[uint16]string{port: "it is the console's, see --console"}
}

// newConsole shows how the process stands.
func newConsole(pod string, p *proxy.Proxy, told func() subscription.State, unready func() string, unavailable func() map[uint16]string) *console.Console {
	return console.New(console.Options{
		Pod: pod, Version: version, Began: time.Now(), Table: p.Table,
		State: func() console.State {
			s := told()
			return console.State{Unready: unready(), Connected: s.Connected, Since: s.Since, Position: s.Position,
				Refused: s.Refused, Unavailable: unavailable()}
		},
		Endpoints: func(backend string, most int) (out []console.Endpoint, all int) {
			states, all := p.Endpoints(backend, most)
			for _, e := range states {
				shown := console.Endpoint{Endpoint: e.Endpoint, Out: e.Out, Open: e.Open, Idle: e.Idle}
				if e.Failed != nil {
					shown.Failed = e.Failed.Error()
				}
				out = append(out, shown)
			}
			return out, all
		},
	})
}

// serveConsole serves it until the context ends, to people and to the other proxies of the node.
func serveConsole(ctx context.Context, address string, c *console.Console, log *slog.Logger) {
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		serveAgain(ctx, log, "the console's part for the other proxies of the node", func() error { return c.AnswerPeers(ctx) })
	})
	serveAgain(ctx, log, "the console", func() error {
		l, err := proxy.ListenShared(address)
		if err != nil {
			return err
		}
		log.Info("the console is served", "address", l.Addr())
		return c.Serve(ctx, l)
	})
}
