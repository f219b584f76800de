package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	routing "github.com/mumoshu/ingress-daemonset-controller/internal/routing/controller"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// handshakeTakes is how long a connection may take until its handshake is done.
	handshakeTakes = 10 * time.Second
	// lookEvery is how often it is looked whose pod is gone, beside when a pod goes.
	lookEvery = 10 * time.Second
	// bindEvery is how often it is tried to have the address, where somebody else has it.
	bindEvery = time.Second
)

// streams serves proxies their streams, in every replica, and ends those whose pod is gone.
type streams struct {
	server  *delta.Server
	address string
	secured credentials.TransportCredentials
	// informers and cached have at least all pods of IngressDaemonSets, live reads past them.
	informers    cache.Informers
	cached, live client.Reader

	mu sync.Mutex
	// bound says whether the address is this replica's, and unbound why it is not.
	bound   bool
	unbound error
}

var _ manager.LeaderElectionRunnable = &streams{}

// NeedLeaderElection is of manager.LeaderElectionRunnable.
func (*streams) NeedLeaderElection() bool { return false }

// Start is of manager.Runnable. It ends when all streams have.
func (s *streams) Start(ctx context.Context) error {
	listener := s.bind(ctx)
	if listener == nil {
		return nil
	}
	return s.serve(ctx, listener)
}

// bind waits for the address until it has it, nil where the context ends before: what else the controller does
// goes on without.
func (s *streams) bind(ctx context.Context) net.Listener {
	for {
		listener, err := net.Listen("tcp", s.address)
		s.noteBound(ctx, err)
		if err == nil {
			return listener
		}
		select {
		case <-time.After(bindEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// noteBound says why the address cannot be had, once for as long as it cannot.
func (s *streams) noteBound(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.unbound == nil {
		ctrl.LoggerFrom(ctx).Error(err, "proxies cannot be told anything until the address is free", "address", s.address)
	}
	s.bound, s.unbound = err == nil, err
}

// ready is why proxies cannot be told yet, for /readyz: they had better ask another replica.
func (s *streams) ready(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.unbound != nil:
		return fmt.Errorf("serving proxies: %w", s.unbound)
	case !s.bound:
		return errors.New("serving proxies has not begun")
	case !s.server.IsComplete():
		return errors.New("it is not known yet what proxies are to be told")
	}
	return nil
}

func (s *streams) serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close()
	if err := s.watch(ctx); err != nil {
		return fmt.Errorf("watching pods of proxies: %w", err)
	}
	go s.lookAgain(ctx)
	g := s.server.GRPC(grpc.Creds(s.secured), grpc.ConnectionTimeout(handshakeTakes), grpc.WaitForHandlers(true))
	// Streams have no end of their own that could be waited for. What was under way comes again, from the
	// replica that a proxy reaches next.
	context.AfterFunc(ctx, g.Stop)
	if err := g.Serve(s.server.Bound(listener)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving proxies: %w", err)
	}
	return nil
}

// watch ends the streams of a pod when it goes.
func (s *streams) watch(ctx context.Context) error {
	informer, err := s.informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(s.handler())
	return err
}

func (s *streams) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if pod, is := object.(*corev1.Pod); is && hasEnded(pod) {
				s.end(pod.UID)
			}
		},
		DeleteFunc: func(object any) {
			if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = last.Obj
			}
			if pod, is := object.(*corev1.Pod); is {
				s.end(pod.UID)
			}
		},
	}
}

// end ends the streams of a pod.
func (s *streams) end(uid types.UID) {
	s.server.End(func(p delta.Peer) bool { return p.UID == uid })
}

// lookAgain looks from time to time: a pod that goes while its stream is let in has one that watch missed.
func (s *streams) lookAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
			for _, uid := range s.gone(ctx) {
				s.end(uid)
			}
		}
	}
}

// gone are pods with streams that are gone. The cache may not have a pod yet that has a stream already, so
// that the API server is asked about each that the cache does not have.
func (s *streams) gone(ctx context.Context) (uids []types.UID) {
	for _, p := range s.peers() {
		gone, err := isGone(ctx, s.cached, p)
		if gone {
			gone, err = isGone(ctx, s.live, p)
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "a proxy's pod cannot be looked for", "namespace", p.IngressDaemonSet.Namespace, "pod", p.Pod)
		}
		if gone {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

// peers are those of all streams.
func (s *streams) peers() (all []delta.Peer) {
	s.server.End(func(p delta.Peer) bool {
		all = append(all, p)
		return false
	})
	return all
}

// isGone reports whether it is known that a proxy's pod is not there, or has ended.
func isGone(ctx context.Context, in client.Reader, p delta.Peer) (bool, error) {
	pod := &corev1.Pod{}
	err := in.Get(ctx, types.NamespacedName{Namespace: p.IngressDaemonSet.Namespace, Name: p.Pod}, pod)
	if err != nil {
		return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}
	return pod.UID != p.UID || hasEnded(pod), nil
}

// hasEnded reports whether a pod will never run again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// reported has each state of each stream known, and in the log where that has all.
func reported(log logr.Logger, acknowledged *routing.Acknowledgements) func(delta.Report) {
	return func(r delta.Report) {
		acknowledged.Report(r)
		log.V(2).Info("reported", "ingressdaemonset", r.IngressDaemonSet, "pod", r.Pod, "stream", r.Stream, "position", r.Position, "refused", r.Refused, "ended", r.Ended)
	}
}
