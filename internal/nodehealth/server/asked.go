package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// note counts a request of somebody who is none of this project's programs: a removed
// port stays open for as long as there are such. Drain hooks are the node's own.
func (r *Responder) note(req *http.Request) {
	if conn, ok := req.Context().Value(connKey{}).(*boundedConn); ok {
		conn.asked.Store(true)
	}
	if req.Header.Get(v1alpha1.HeaderClient) == "" && !asksToDrain(req) {
		r.count(req.RemoteAddr)
	}
}

// connKey is where the context of a request has its *boundedConn.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// noteEnd counts a connection that ends without a request, as with load balancers that
// check by TCP alone, or by something that is not HTTP. This project's programs send a
// request on each that they open. Only a hand-over of v0.1.0 does not, which delays
// little: it comes when its successor has just begun to count.
func (r *Responder) noteEnd(conn net.Conn, state http.ConnState) {
	if c, ok := conn.(*boundedConn); ok && state == http.StateClosed && !c.asked.Load() {
		r.count(c.RemoteAddr().String())
	}
}

// count counts one who asked, by the address host:port.
func (r *Responder) count(by string) {
	if remote, err := netip.ParseAddrPort(by); err == nil {
		by = remote.Addr().Unmap().String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking.Add(by, time.Now())
	if r.answer.Quiet {
		r.listenForQuiet()
	}
}

// listenForQuiet tells at once when the port turns quiet, or is not any more. r.mu is held.
func (r *Responder) listenForQuiet() {
	now := time.Now()
	_, r.answer.Quiet = r.asking.Told(now)
	if !r.answer.Quiet {
		r.turnsQuiet.Reset(r.asking.QuietAt().Sub(now))
	}
	r.announce()
}

// countAsking begins to count, until the returned function is called.
func (r *Responder) countAsking() (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking.Since = time.Now()
	r.turnsQuiet = time.AfterFunc(r.asking.AtLeast, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.listenForQuiet()
	})
	return func() { r.turnsQuiet.Stop() }
}
