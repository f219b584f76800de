package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName     = "ingress-daemonset-controller"
	leaseDuration = 12 * time.Second
	renewDeadline = 8 * time.Second
	retryPeriod   = 2 * time.Second
	// namespaceFile is where the kubelet puts the namespace of a pod.
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// lease is the lock of the election, and knows until when no other controller can hold it: a
// process that was frozen goes on before it notices that it leads no more.
type lease struct {
	resourcelock.Interface
	mu sync.Mutex
	// asked is when the newest renewal that succeeded was sent.
	asked time.Time
	// now is the clock.
	now func() time.Time
	// asking reads the same Lease apart: what the election's lock reads is what it writes beside next, so that nobody
	// else may have it read.
	asking resourcelock.Interface
}

// newLease makes the lock in a namespace. The address is where other replicas reach this one, empty for nowhere.
func newLease(config *rest.Config, namespace, address string) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding a name for the election: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())}
	if address != "" {
		identity.Identity += addressMark + address
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lock of the election: %w", err)
	}
	asking, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making what asks who leads: %w", err)
	}
	return &lease{Interface: lock, now: time.Now, asking: asking}, nil
}

// ownNamespace is the controller's: the one that a flag names, or else that of the pod.
func ownNamespace(flagged string) (string, error) {
	if flagged != "" {
		return flagged, nil
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("finding the namespace of the controller: set --leader-election-namespace: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// addressMark begins the address at which a replica is reached, in the name under which it leads.
const addressMark = "_at_"

// leaderElsewhere is the address of the replica that leads, empty where this one does, or where it is not known.
func (l *lease) leaderElsewhere(ctx context.Context) (string, error) {
	record, _, err := l.asking.Get(ctx)
	if err != nil {
		return "", err
	}
	if record.HolderIdentity == l.Identity() {
		return "", nil
	}
	_, address, _ := strings.Cut(record.HolderIdentity, addressMark)
	return address, nil
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Create(ctx, record) })
}

func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(record, func() error { return l.Interface.Update(ctx, record) })
}

// renew notes when a renewal was sent that succeeded. One that lets go of the lease holds
// it no more.
func (l *lease) renew(record resourcelock.LeaderElectionRecord, write func() error) error {
	sent := l.now()
	err := write()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case record.HolderIdentity != l.Identity():
		l.asked = time.Time{}
	case err == nil:
		l.asked = sent
	}
	return err
}

// leads reports whether no other controller can hold the lease yet: another one waits for its
// duration from when it saw the last renewal. It counts by either clock of the machine,
// since one may stand still while it sleeps.
func (l *lease) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	return !l.asked.IsZero() && now.Sub(l.asked) < renewDeadline && now.Round(0).Sub(l.asked.Round(0)) < renewDeadline
}
