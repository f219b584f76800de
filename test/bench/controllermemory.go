package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

const (
	// manyStreams are opened by this process, as proxies of pods open theirs.
	manyStreams = 1000
	// lateChanges are told to all streams.
	lateChanges = 20

	maxControllerMB = 600
)

// proxyController is what the controller takes of manyHosts Ingresses, each of a host, a Service and an
// EndpointSlice of its own, with what it takes to tell all of it to manyStreams.
func proxyController(ctx context.Context, o options, r *report) error {
	return onRouted(ctx, o, func(ctx context.Context, s *routed) error {
		// Nobody is sent there.
		endpoint := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: podPort}
		if err := s.services(ctx, manyHosts, endpoint); err != nil {
			return fmt.Errorf("creating Services: %w", err)
		}
		if err := s.each(ctx, manyHosts, func(ctx context.Context, i int) error { return s.client.Create(ctx, ingressNumber(i)) }); err != nil {
			return fmt.Errorf("creating Ingresses: %w", err)
		}
		if err := s.tellStreams(ctx, endpoint); err != nil {
			return err
		}
		if err := s.profile(ctx); err != nil {
			return err
		}
		return reportMemory(r, &memoryResult{Case: "proxy-controller", Hosts: manyHosts, Streams: manyStreams}, s.controller.process.Pid, maxControllerMB)
	})
}

func ingressNumber(i int) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceNumber(i)},
		Spec: networkingv1.IngressSpec{IngressClassName: ptr(idsName), Rules: []networkingv1.IngressRule{{
			Host: hostNumber(i), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: ptr(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: serviceNumber(i), Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}}}},
		}}},
	}
}

// listeners are what streams were told.
type listeners struct {
	trust  credentials.TransportCredentials
	target string
	// whole counts streams that were told of all hosts, told transactions of all streams.
	whole, told atomic.Int64
}

// tellStreams opens all streams, and returns when each was told all, and of some changes after that.
func (s *routed) tellStreams(ctx context.Context, endpoint *net.TCPAddr) error {
	trust, err := delta.Trust(s.trusted)
	if err != nil {
		return err
	}
	var tokens []delta.Token
	for _, pod := range s.pods {
		dir, err := s.folder(ctx, pod)
		if err != nil {
			return err
		}
		tokens = append(tokens, delta.Token(filepath.Join(dir, "token")))
	}
	ctx, stop := context.WithTimeout(ctx, 20*time.Minute)
	defer stop()
	all := &listeners{trust: trust, target: "passthrough:///" + s.streams}
	open, end := context.WithCancel(ctx)
	defer end()
	streams, streaming := errgroup.WithContext(open)
	for i := range manyStreams {
		token := tokens[i%len(tokens)]
		streams.Go(func() error { return all.listen(streaming, token) })
		// A few are told at a time: this machine has to read all of it, too.
		if err := all.await(streaming, func() bool { return int(all.whole.Load()) > i-connections }); err != nil {
			return fmt.Errorf("%d of %d streams were told all: %w", all.whole.Load(), manyStreams, err)
		}
	}
	if err := all.await(streaming, func() bool { return all.whole.Load() == manyStreams }); err != nil {
		return fmt.Errorf("%d of %d streams were told all: %w", all.whole.Load(), manyStreams, err)
	}
	before := all.told.Load()
	for i := range lateChanges {
		if err := s.client.Update(ctx, sliceOf(i, endpoint, "late")); err != nil {
			return err
		}
	}
	if err := all.await(streaming, func() bool { return all.told.Load() >= before+manyStreams }); err != nil {
		return fmt.Errorf("not all streams were told of a change: %w", err)
	}
	end()
	return unlessOver(open, streams.Wait())
}

func (all *listeners) await(ctx context.Context, is func() bool) error {
	return until(ctx, func() (bool, error) { return is(), nil })
}

// listen is a stream over a connection of its own, which takes all that it is told, until the context ends.
func (all *listeners) listen(ctx context.Context, token delta.Token) error {
	connection, err := delta.Dial(all.target, grpc.WithNoProxy(), grpc.WithTransportCredentials(all.trust), grpc.WithPerRPCCredentials(token))
	if err != nil {
		return err
	}
	defer connection.Close()
	var stream *delta.Client
	// As a proxy does, it tries again where the controller is busy with others.
	err = until(ctx, func() (_ bool, err error) {
		stream, err = delta.Open(ctx, connection)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	answer := wire.Request{Node: "bench", TypeURL: wire.TypeURL}
	for resources, whole := 0, false; ; {
		if err := stream.Send(answer); err != nil {
			return err
		}
		r, err := stream.Receive()
		if err != nil {
			return err
		}
		answer = wire.Request{TypeURL: wire.TypeURL, Nonce: r.Nonce}
		all.told.Add(1)
		// A host has a route, a backend and endpoints.
		if resources += len(r.Resources); !whole && resources >= 3*manyHosts {
			whole = true
			all.whole.Add(1)
		}
	}
}

// profile writes what the controller keeps to a file beside its log, for who wants to know what takes it.
func (s *routed) profile(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.debug+"/debug/pprof/heap", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Create(filepath.Join(s.Dir(), "logs", "controller.heap"))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, response.Body)
	return err
}
