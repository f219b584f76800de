// Package server is the health checker: it watches a node's Deployment and pods, probes pods
// where the API server cannot be believed, and answers the external load balancer's health checks
// and the controller's questions with what package nodehealth decides.
package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// Responder answers health checks for one node from the last State it was given.
// Many can live in one process.
type Responder struct {
	log *slog.Logger
	// id tells its answers from those of another health checker on the port.
	id string
	// connections tells of the connections to the ingress ports; nil where none is
	// watched.
	connections func(context.Context) []v1alpha1.PortConnections

	mu     sync.Mutex
	answer v1alpha1.HealthCheckAnswer
	tag    string
	// since is when the verdict began: what else the tag depends on does not restart it.
	since time.Time
	// failing is since when the answer has not been Serving; zero while it is, and while
	// nothing is known, since another health checker may answer on the port until then.
	failing time.Time
	lostAt  time.Time
	polls   map[*poll]struct{}
	drains  drains
	// asking is who else asks, turnsQuiet fires when nobody has for long.
	asking     nodehealth.Asking
	turnsQuiet *time.Timer
	closed     bool
	// leaving is since when the checker is to end without another that takes over;
	// zero while it is not.
	leaving time.Time
	// writing is how many answers to requests that waited are under way, settled is told
	// when that or the number of drain hooks that wait has come to nothing.
	writing int
	settled *sync.Cond
}

// NewResponder answers that it is starting, until Update.
func NewResponder(log *slog.Logger) *Responder {
	answer := nodehealth.Decide(nodehealth.State{})
	r := &Responder{
		log: log, id: rand.Text(), answer: answer, tag: etag(answer), since: time.Now(), polls: map[*poll]struct{}{},
		drains: drains{waiting: map[*drain]struct{}{}}, asking: nodehealth.Asking{AtLeast: nodehealth.QuietAtLeast},
	}
	r.settled = sync.NewCond(&r.mu)
	return r
}

// Update replaces the State that is answered from.
func (r *Responder) Update(s nodehealth.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ShuttingDown = r.drains.state.ShuttingDown
	r.judge(s)
	r.reconsiderDrains()
}

// judge answers from a State. r.mu is held.
func (r *Responder) judge(s nodehealth.State) {
	answer, before := nodehealth.Decide(s), r.answer
	answer.Quiet = before.Quiet
	r.answer, r.lostAt = answer, s.LostAt
	r.drains.update(s, answer.Serving, time.Now())
	if verdict(answer) != verdict(before) {
		r.since = time.Now()
		r.log.Info("Verdict changed", "serving", answer.Serving, "reason", answer.Reason, "mark", answer.Mark,
			"readyPods", answer.ReadyPods, "wantedPods", answer.WantedPods)
	}
	switch {
	case answer.Serving:
		r.failing = time.Time{}
	case s.Known && r.failing.IsZero():
		r.failing = time.Now()
	}
	r.announce()
}

// announce answers those that wait where the answer has changed for them. r.mu is held.
func (r *Responder) announce() {
	if tag := etag(r.answer); tag != r.tag {
		r.tag = tag
		r.answerPolls()
	}
}

// ServeHTTP answers 200 or 503 on every path and method.
func (r *Responder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.note(req)
	if asksToDrain(req) && r.holdPod(w, req) {
		return
	}
	var connections []v1alpha1.PortConnections
	if r.connections != nil && asksForConnections(req) {
		connections = r.connections(req.Context())
	} else if wait := waits(req); wait > 0 && r.hold(w, req, wait) {
		return
	}
	status, header, body := r.render(connections)
	for key, values := range header {
		w.Header()[key] = values
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		r.log.Debug("Client went away", "error", err)
	}
}

// asksForConnections costs the health checks of load balancers nothing: they have
// no query.
func asksForConnections(req *http.Request) bool {
	return req.URL.RawQuery != "" && req.URL.Query().Has("connections")
}

func (r *Responder) render(connections []v1alpha1.PortConnections) (status int, header http.Header, body []byte) {
	r.mu.Lock()
	answer, tag, since, failing, lostAt := r.answer, r.tag, r.since, r.failing, r.lostAt
	answer.Asked, _ = r.asking.Told(time.Now())
	r.mu.Unlock()

	answer.Connections = connections
	answer.AgeSeconds = time.Since(since).Seconds()
	if !failing.IsZero() {
		answer.FailingSeconds = time.Since(failing).Seconds()
	}
	if !lostAt.IsZero() {
		answer.APIAgeSeconds = max(0, time.Since(lostAt).Seconds())
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic("a plain struct is always JSON: " + err.Error())
	}
	body = append(body, '\n')
	header = http.Header{
		"Content-Type":      {"application/json"},
		"Content-Length":    {strconv.Itoa(len(body))},
		"Cache-Control":     {"no-store"},
		"Etag":              {tag},
		headerID:            {r.id},
		v1alpha1.HeaderLife: {strconv.Itoa(v1alpha1.LifeSeconds)},
	}
	if answer.Serving {
		return http.StatusOK, header, body
	}
	return http.StatusServiceUnavailable, header, body
}

// verdict is what an answer's age counts from.
func verdict(answer v1alpha1.HealthCheckAnswer) string {
	return fmt.Sprintf("%t %q %q", answer.Serving, answer.Reason, answer.Mark)
}

// etag depends on the node and the verdict, and where there is any on what else is told at
// once, so that it outlives a hand-over to another process, and whoever asks a node that
// has the address of another by now does not wait there. It is weak, since the ages change.
func etag(answer v1alpha1.HealthCheckAnswer) string {
	hash := fnv.New64a()
	hash.Write([]byte(answer.Node + " " + verdict(answer)))
	if answer.Blind != "" {
		hash.Write([]byte(" blind"))
	}
	if answer.Quiet {
		hash.Write([]byte(" quiet"))
	}
	return fmt.Sprintf(`W/"%016x"`, hash.Sum64())
}
