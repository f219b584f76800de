package main

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/console"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/subscription"
)

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
