package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// maxHooks is how many drain hooks may wait at a time; further ones are answered at once.
const maxHooks = 256

// drains is what the Responder knows beside the State, for drain hooks.
type drains struct {
	hook  nodehealth.DrainHook
	state nodehealth.State
	// failing is since when health checks fail; zero while they pass, and while nothing is
	// known, since another health checker may answer on the port until then.
	failing time.Time
	// seen is when the deletion of each pod that terminates was seen.
	seen map[types.UID]time.Time
	// back is when the API server could be read again; zero where it always could.
	back    time.Time
	waiting map[*drain]struct{}
}

// drain is the hook of a pod that waits.
type drain struct {
	poll
	asked time.Time
	// free is since when it is held for open connections only.
	free time.Time
	// targeted says whether a pod of the node was a target since it asked.
	targeted bool
	why      string
}

// asksToDrain reports whether the request is a drain hook: only the node itself may have
// pods held and connections with them.
func asksToDrain(req *http.Request) bool {
	return req.URL.RawQuery != "" && req.URL.Query().Has("drain") && local(req)
}

func local(req *http.Request) bool {
	remote, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return false
	}
	at, ok := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	own, err := netip.ParseAddrPort(at.String())
	return err == nil && (remote.Addr().Unmap().IsLoopback() || remote.Addr().Unmap() == own.Addr().Unmap())
}

func (d *drains) of(h *drain, now time.Time) nodehealth.Drain {
	return nodehealth.Drain{Now: now, Asked: h.asked, Failing: d.failing, Free: h.free, Targeted: h.targeted, Seen: d.seen, Lag: hangTime, Back: d.back}
}

// update takes note of a State. r.mu is held.
func (d *drains) update(s nodehealth.State, serving bool, now time.Time) {
	if !d.state.LostAt.IsZero() && s.LostAt.IsZero() {
		d.back = now
	}
	d.state = s
	switch {
	case serving:
		d.failing = time.Time{}
	case s.Known && d.failing.IsZero():
		d.failing = now
	}
	seen := map[types.UID]time.Time{}
	for _, pod := range s.Pods {
		if !pod.Ending {
			continue
		}
		at, known := d.seen[pod.UID]
		if !known {
			at = now
		}
		seen[pod.UID] = at
	}
	d.seen = seen
}

// holdPod puts a drain hook off for as long as the pod is to be held. Where it
// returns false the request is still to be answered.
func (r *Responder) holdPod(w http.ResponseWriter, req *http.Request) bool {
	hijacker, ok := w.(http.Hijacker)
	if !ok || req.ContentLength > 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leaving.IsZero() {
		time.AfterFunc(nodehealth.Together, r.reconsider)
	}
	h := &drain{asked: time.Now()}
	why, until := r.holds(h)
	if why == "" || len(r.drains.waiting) >= maxHooks {
		r.log.Info("A pod may stop", "heldSeconds", 0)
		return false
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return false
	}
	if c, ok := conn.(*boundedConn); ok {
		c.leave()
	}
	h.poll = poll{conn: conn, method: req.Method, timer: time.AfterFunc(time.Until(until), r.reconsider)}
	h.why = why
	r.log.Info("A pod is held", "because", why)
	r.drains.waiting[h] = struct{}{}
	return true
}

func (r *Responder) holds(h *drain) (why string, until time.Time) {
	now := time.Now()
	h.targeted = h.targeted || r.drains.state.HasTarget()
	why, until = r.drains.hook.Holds(r.drains.state, r.drains.of(h, now))
	switch {
	case why != nodehealth.Lingering:
		h.free = time.Time{}
	case h.free.IsZero():
		h.free = now
	}
	return why, until
}

func (r *Responder) reconsider() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reconsiderDrains()
}

// reconsiderDrains answers the hooks of pods that may stop. r.mu is held.
func (r *Responder) reconsiderDrains() {
	r.noticeShutdown()
	for h := range r.drains.waiting {
		why, until := r.holds(h)
		if why != "" {
			if why != h.why {
				r.log.Info("A pod is held", "because", why)
				h.why = why
			}
			h.timer.Reset(time.Until(until))
			continue
		}
		r.log.Info("A pod may stop", "heldSeconds", time.Since(h.asked).Seconds())
		delete(r.drains.waiting, h)
		r.send(&h.poll)
	}
	if len(r.drains.waiting) == 0 {
		r.settled.Broadcast()
	}
}

// noticeShutdown lets health checks fail where the node stops its pods: the checker is
// told to end, and a pod that was not deleted is stopped. r.mu is held.
func (r *Responder) noticeShutdown() {
	s := r.drains.state
	if r.leaving.IsZero() || s.ShuttingDown {
		return
	}
	for h := range r.drains.waiting {
		if s.Unannounced(r.drains.of(h, time.Now())) {
			s.ShuttingDown = true
			r.judge(s)
			return
		}
	}
}

// outlast returns when no pod of the node will be held any more: none has a hook, or
// none asked in time after the checker was told to end, and none that did is held.
func (r *Responder) outlast() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = time.Now()
	for _, after := range []time.Duration{nodehealth.Together, nodehealth.Shutdown} {
		time.AfterFunc(after, r.reconsider)
	}
	for len(r.drains.waiting) > 0 || r.drains.state.MayDrain() && time.Since(r.leaving) < nodehealth.Shutdown {
		r.settled.Wait()
	}
}

// waitForDrains returns when no hook waits any more. Each is bounded by the grace
// period of its pod.
func (r *Responder) waitForDrains() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.drains.waiting) > 0 || r.writing > 0 {
		r.settled.Wait()
	}
}
