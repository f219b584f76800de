package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// manyHosts is how many hosts a large table has, each with a route and a backend of its own.
const manyHosts = 10_000

// hostNumber is one of them.
func hostNumber(i int) string { return fmt.Sprintf("app-%d.team-%d.example.com", i, i%97) }

// listenerAt is told where requests come in.
func listenerAt(port uint16, certificates ...string) wire.Resource {
	name := fmt.Sprint("port-", port)
	return wire.Resource{Name: name, Listener: &wire.Listener{
		Object: wire.Object{Kind: "Gateway", Namespace: namespace, Name: "web"}, Section: name, Port: port, TLS: len(certificates) > 0, Certificates: certificates,
	}}
}

// backendOf is told of a Service of that name and of its endpoints.
func backendOf(name string, endpoints []net.Addr) []wire.Resource {
	all := &wire.Endpoints{}
	for i, at := range endpoints {
		a := netip.MustParseAddrPort(at.String())
		all.All = append(all.All, wire.Endpoint{Address: a.Addr().String(), Port: a.Port(), UID: fmt.Sprint("pod-", i)})
	}
	return []wire.Resource{
		{Name: name, Endpoints: all},
		{Name: name, Backend: &wire.Backend{Service: wire.Object{Kind: "Service", Namespace: namespace, Name: name}, Port: 80, MaxFails: 1, FailTimeout: 10_000}},
	}
}

// routeTo is told to send requests for a path of a host to a backend.
func routeTo(host, path, backend string, listener wire.Resource) wire.Resource {
	name := host + path
	return wire.Resource{Name: name, Route: &wire.Route{
		Object: wire.Object{Kind: "HTTPRoute", Namespace: namespace, Name: name}, Listeners: []string{listener.Name}, Hostnames: []string{host},
		Matches: []wire.Match{{Path: path}}, Backends: []wire.Share{{Backend: backend, Weight: 1}},
	}}
}

// tableOf is that of so many hosts.
func tableOf(hosts int, listener wire.Resource, endpoints []net.Addr) []wire.Resource {
	all := []wire.Resource{listener}
	for i := range hosts {
		all = append(append(all, backendOf(backendNumber(i), endpoints)...), routeTo(hostNumber(i), smallPath, backendNumber(i), listener))
	}
	return all
}

func backendNumber(i int) string { return fmt.Sprintf("shop/s%d:80", i) }
