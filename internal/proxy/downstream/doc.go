// Package downstream speaks HTTP/1.1 to clients: it reads requests, gives them to an http.Handler and writes what that
// answers, in one goroutine for each connection.
//
// It is strict (RFC 9112): a head that could be read in two ways is refused, and ends its connection. Whether a client is
// still there is looked at only for a handler that asks (Request.Context), since most requests are over sooner: with
// net/http's Server, which asks for each, a small request took the proxy a third more processor time.
//
// Its files, in the order in which to open them:
//
//   - server.go: Server, its bounds, and a connection from its first byte to its last. waiting.go: between requests.
//   - head.go: what a request begins with. body.go: what comes after that.
//   - answer.go: what is written.
//   - presence.go: whether the client is still there.
package downstream
