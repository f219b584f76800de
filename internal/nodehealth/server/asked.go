package server

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// note counts a request of somebody who is none of this project's programs: a removed
// port stays open for as long as there are such.
func (r *Responder) note(req *http.Request) {
	if req.Header.Get(v1alpha1.HeaderClient) != "" {
		return
	}
	by := req.RemoteAddr
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
