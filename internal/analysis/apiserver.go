package analysis

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// knownFor is for how long the addresses of the API server are not read again.
const knownFor = time.Minute

// theAPI is the Service of the API server, which it keeps itself.
var theAPI = client.ObjectKey{Namespace: "default", Name: "kubernetes"}

// apiServers remembers where the API server is reached.
type apiServers struct {
	// reading is held by whoever looks at the rest: a mutex for which nobody waits for
	// longer than for the measurement.
	reading chan struct{}
	at      map[netip.AddrPort]bool
	readAt  time.Time
}

// forbidden are the addresses of the API server. Where they cannot be read those of before
// count, and without such nothing is asked.
func (m *Measurer) forbidden(ctx context.Context) (map[netip.AddrPort]bool, error) {
	select {
	case m.apiServers.reading <- struct{}{}:
		defer func() { <-m.apiServers.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.apiServers.at != nil && time.Since(m.apiServers.readAt) < knownFor {
		return m.apiServers.at, nil
	}
	at, err := m.readAPIServers(ctx)
	switch {
	case err == nil:
		m.apiServers.at, m.apiServers.readAt = at, time.Now()
	case m.apiServers.at == nil:
		return nil, fmt.Errorf("the addresses of the API server are not known: %w", err)
	}
	return m.apiServers.at, nil
}

func (m *Measurer) readAPIServers(ctx context.Context) (map[netip.AddrPort]bool, error) {
	at := map[netip.AddrPort]bool{}
	add := func(address string, port int32) {
		if a, err := netip.ParseAddr(address); err == nil {
			at[netip.AddrPortFrom(a.Unmap(), uint16(port))] = true
		}
	}
	service := &corev1.Service{}
	if err := m.Services.Get(ctx, theAPI, service); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	for _, address := range service.Spec.ClusterIPs {
		for _, port := range service.Spec.Ports {
			add(address, port.Port)
		}
	}
	slices := &discoveryv1.EndpointSliceList{}
	if err := m.Live.List(ctx, slices, client.InNamespace(theAPI.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: theAPI.Name}); err != nil {
		return nil, err
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				for _, port := range slice.Ports {
					if port.Port != nil {
						add(address, *port.Port)
					}
				}
			}
		}
	}
	if own, err := url.Parse(m.APIServer); err == nil {
		if port, err := strconv.ParseUint(portOf(own), 10, 16); err == nil {
			add(own.Hostname(), int32(port))
		}
	}
	return at, nil
}

// portOf is the port that a URL leads to.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
