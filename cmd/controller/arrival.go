package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// answerTakes is how long the API server may take for an answer at the start.
	answerTakes = 10 * time.Second
	// sayAwayEvery is how often the log says that it is still waited for.
	sayAwayEvery = 10 * time.Second
	// settlesIn is how long what an API server refuses may be for its own start, after it was away: it listens before it
	// has read who may do what, and which kinds there are, so that for some seconds it answers 401, 403 and 404 where
	// nothing is wrong. One that was not away is believed at once, so that a wrong token, a missing right or a missing
	// CRD ends the controller as soon as it starts, with what was refused.
	settlesIn = 30 * time.Second
	// closedUnused is what net/http says of a connection that was closed before anything was sent, and exports no error for.
	closedUnused = "http: server closed idle connection"
)

// arrive waits at the start until the API server answers what the controller cannot do without, and returns a client
// that has read which kinds there are. A controller that ended instead would be begun again by the kubelet, but after a
// pause that grows to five minutes, in which proxies, rollouts and targets wait for it although the API server is back.
// Meanwhile probes are answered at an address, empty or 0 for nowhere. What waiting does not mend is an error.
func arrive(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, probes string, required ...func(context.Context, client.Reader) error) (client.Client, error) {
	stop, err := answerProbes(probes)
	if err != nil {
		return nil, err
	}
	defer stop()
	config = rest.CopyConfig(config)
	config.Timeout = answerTakes
	asked, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client that asks at the start: %w", err)
	}
	for _, ask := range required {
		if err := awaitAnswer(ctx, ctrl.Log.WithValues("address", config.Host), func() error { return ask(ctx, asked) }); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// readsOwn is an error where IngressDaemonSets cannot be read. That takes all that an API server needs for anything
// else: its storage, its authorities, the rights that it was given and the kinds that were installed. Its own /readyz can
// fail for long for what is no matter here, such as a key of Secrets.
func readsOwn(ctx context.Context, live client.Reader) error {
	if err := live.List(ctx, &v1alpha1.IngressDaemonSetList{}, client.Limit(1)); err != nil {
		return fmt.Errorf("reading IngressDaemonSets: %w", err)
	}
	return nil
}

// awaitAnswer asks about once a second until there is no error, the context ends, or waiting does not mend it.
func awaitAnswer(ctx context.Context, log logr.Logger, ask func() error) error {
	var away, said time.Time
	for begun := time.Now(); ; {
		err := answerOf(ctx, ask)
		if isAway(err) {
			away = time.Now()
		}
		switch {
		case err == nil && !said.IsZero():
			log.Info("the API server is back", "waited", time.Since(begun).Round(time.Second).String())
			return nil
		case err == nil || ctx.Err() != nil || time.Since(away) >= settlesIn:
			return err
		case time.Since(said) >= sayAwayEvery:
			log.Info("waiting for the API server", "why", err.Error(), "waited", time.Since(begun).Round(time.Second).String())
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait.Jitter(askAway, 1)):
		}
	}
}

// answerOf asks, and waits for the answer no longer than the context lasts: what reads which kinds there are does not go
// by one.
func answerOf(ctx context.Context, ask func() error) error {
	answer := make(chan error, 1)
	go func() { answer <- ask() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isAway reports whether nobody answers who can: the network says so, the time is over, the connection breaks off, or
// whoever answers says that it cannot now, as an API server does that starts or ends, and a load balancer without one.
// A name that does not exist, an unknown authority or a refused certificate is a mistake in what says where it is.
func isAway(err error) bool {
	if status, answered := errors.AsType[*apierrors.StatusError](err); answered {
		code := status.ErrStatus.Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	if name, failed := errors.AsType[*net.DNSError](err); failed {
		return !name.IsNotFound
	}
	if _, failed := errors.AsType[*net.OpError](err); failed {
		if _, refused := errors.AsType[syscall.Errno](err); refused {
			return true
		}
	}
	return utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) || err != nil && strings.Contains(err.Error(), closedUnused)
}

// answerProbes answers the probes of a controller that waits, until it is stopped: it lives, and is not ready.
func answerProbes(address string) (stop func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("answering probes: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "waiting for the API server", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: answerTakes}
	go server.Serve(listener)
	return func() {
		// The manager has the address next, also where the server did not come to serve it.
		listener.Close()
		server.Close()
	}, nil
}
