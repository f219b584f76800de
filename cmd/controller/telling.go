package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// askEvery is how often it is asked who leads, and whether there is something to tell.
const askEvery = 2 * time.Second

// telling tells the leader how far the proxies of this replica are, while another one leads: the leader alone writes
// statuses.
type telling struct {
	leader interface {
		leaderElsewhere(context.Context) (address string, err error)
	}
	secured  credentials.TransportCredentials
	progress func() ([]byte, error)
	pause    time.Duration
}

var _ manager.LeaderElectionRunnable = &telling{}

// NeedLeaderElection is of manager.LeaderElectionRunnable.
func (*telling) NeedLeaderElection() bool { return false }

// Start is of manager.Runnable.
func (t *telling) Start(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		why := ""
		if err := t.tell(ctx); err != nil {
			why = err.Error()
		}
		if why != said && why != "" && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Info("the leader cannot be told how far proxies are", "why", why)
		}
		said = why
		select {
		case <-time.After(t.pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// tell tells whoever leads elsewhere, for as long as that one does.
func (t *telling) tell(ctx context.Context) error {
	address, err := t.leader.leaderElsewhere(ctx)
	if err != nil || address == "" {
		return err
	}
	conn, err := delta.Dial(address, grpc.WithTransportCredentials(t.secured))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	send, ended, err := delta.Tell(ctx, conn)
	if err != nil {
		return fmt.Errorf("reaching it at %s: %w", address, err)
	}
	go func() {
		defer cancel()
		t.wait(ctx, address)
	}()
	var last []byte
	for {
		next, err := t.progress()
		if err != nil {
			return err
		}
		if !bytes.Equal(next, last) {
			if err := send(next); err != nil {
				return fmt.Errorf("telling it at %s: %w", address, err)
			}
			last = next
		}
		select {
		case err := <-ended:
			return fmt.Errorf("telling it at %s: %w", address, err)
		case <-ctx.Done():
			return nil
		case <-time.After(t.pause):
		}
	}
}

// wait waits until another leads than that one. While it cannot be asked who does, nothing changes.
func (t *telling) wait(ctx context.Context, address string) {
	for ctx.Err() == nil {
		if now, err := t.leader.leaderElsewhere(ctx); err == nil && now != address {
			return
		}
		select {
		case <-time.After(t.pause):
		case <-ctx.Done():
		}
	}
}

// reachedAt is where other replicas reach this one: at the address from which it reaches the API server. It is empty
// where that is not known.
func (o *proxies) reachedAt(apiServer string) string {
	_, port, err := net.SplitHostPort(o.address)
	if !o.enabled || err != nil {
		return ""
	}
	at, err := url.Parse(apiServer)
	if err != nil {
		return ""
	}
	// Nothing is sent: UDP has no handshake.
	c, err := net.Dial("udp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "443")))
	if err != nil {
		return ""
	}
	defer c.Close()
	own, _, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return ""
	}
	return net.JoinHostPort(own, port)
}
