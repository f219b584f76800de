package server

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

const (
	// quietTime is how long a checker that knows nothing leaves its port closed.
	quietTime = 5 * time.Second
	// portRetry is how long to wait before a port is tried again.
	portRetry = time.Second
)

// Options of a health checker.
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	// Namespace is the IngressDaemonSet's.
	Namespace string
	Subject   nodehealth.Subject
	// Address is where health checks are answered, host:port; an empty host is
	// all addresses, IPv4 and IPv6.
	Address string
	// StateDir is a folder that outlives a restart of the container, but not the pod.
	StateDir string
	// DrainHook is how pods that are being stopped are held.
	DrainHook nodehealth.DrainHook
	// Connections tells of the connections to the ingress ports, where a request asks
	// for them; nil where none is watched.
	Connections func(context.Context) []v1alpha1.PortConnections
	Log         *slog.Logger
}

// Run answers health checks until ctx is done, then hands over to another
// checker on the port, if there is one. It returns an error where Config or
// StateDir cannot be used. A port that somebody else holds is waited for.
func Run(ctx context.Context, o Options) error {
	sources, err := NewSources(o.Config, o.Namespace, o.Subject)
	if err != nil {
		return err
	}
	ready, err := newReadiness(o.StateDir, o.Log)
	if err != nil {
		return err
	}
	responder := NewResponder(o.Log)
	responder.connections, responder.drains.hook = o.Connections, o.DrainHook
	watcher := NewWatcher(sources, o.Subject, o.StateDir, responder.Update, o.Log)

	// Both outlive ctx, since a leaving checker still answers.
	var running sync.WaitGroup
	defer running.Wait()
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running.Go(func() { watcher.Run(lasting) })
	running.Go(func() { ready.run(lasting) })

	l := o.open(ctx, watcher.Decided(), quietTime)
	if l == nil {
		return nil
	}
	running.Go(func() {
		select {
		case <-watcher.Decided():
			ready.ready.Store(true)
		case <-lasting.Done():
		}
	})
	return responder.Serve(ctx, l)
}

// open opens the port as soon as the verdict is known. Before that it does so
// only where nobody answers there, since whoever does knows more. It returns nil
// when ctx is done.
func (o Options) open(ctx context.Context, decided <-chan struct{}, quiet time.Duration) *net.TCPListener {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-decided:
			return o.hold(ctx)
		case <-timer.C:
			if vacant(o.Address) {
				return o.hold(ctx)
			}
			timer.Reset(portRetry)
		}
	}
}

// hold takes the port, however long somebody else keeps it.
func (o Options) hold(ctx context.Context) *net.TCPListener {
	for {
		l, err := Listen(ctx, o.Address)
		if err == nil {
			o.Log.Info("Answering health checks", "address", l.Addr().String())
			return l
		}
		if ctx.Err() != nil {
			return nil
		}
		o.Log.Warn("Health-check port cannot be opened yet", "address", o.Address, "error", err)
		select {
		case <-time.After(portRetry):
		case <-ctx.Done():
			return nil
		}
	}
}
