// Package proxy is the data plane: it takes requests in, finds their route in a table that is swapped
// whole, and sends them to endpoints. It speaks to no controller: whoever wires it tells it Changes.
//
// Its files, in the order in which to open them:
//
//   - options.go: bounds, and what is believed.
//   - proxy.go: Proxy, an http.Handler, and how it takes changes while requests pass.
//   - exchange.go: one request from its first line to its last, top to bottom. target.go: what it asks
//     for, in normal form. forwarded.go, filter.go, header.go: what becomes of its fields.
//   - backend.go: endpoints, weights, budgets. send.go: tries and retries. body.go: the request's body,
//     and how slow it may be. h2c.go: backends of HTTP/2.
//   - respond.go: the way back. proxystatus.go: why an answer is the proxy's own. tunnel.go, websocket.go:
//     connections that change their protocol. copy.go: what both read into.
//   - server.go: Server, its listeners and certificates. protocols.go: what a connection speaks, HTTP/1.1, which
//     downstream reads, or HTTP/2, which net/http does. conn.go: a client's connection. clients.go: how many there are.
//     drain.go: the end.
//   - metrics.go: what is counted. endpoints.go: how endpoints stand.
//
// A request that does not fail takes its backend's lock three times, to be counted, to be given an endpoint and to say
// that it answered; that of its route's weights where there are several backends; and that of the endpoint's pool twice,
// for a connection and to put it back. Each is held for the time of a choice. All else that it reads does not change, or
// is swapped whole.
package proxy
