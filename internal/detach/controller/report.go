package controller

import (
	"context"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	nodesByPhase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ingressdaemonset_detaching_nodes", Help: "Nodes that are not simply attached, by station.",
	}, []string{"station"})
	movesTook = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ingressdaemonset_node_move_seconds", Help: "How long nodes took from the first step of their detachment, or attachment, to its end, in seconds.",
		Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 3600},
	}, []string{"to"})
	longestMove = &oldest{help: prometheus.NewDesc("ingressdaemonset_longest_move_seconds",
		"For how long that node is on its way out, or back, which is longest, in seconds; 0 where none is.", []string{"station"}, nil)}
)

func init() { metrics.Registry.MustRegister(nodesByPhase, movesTook, longestMove) }

// oldest tells when it is asked how old what is oldest is: where a node stands still, nothing else happens
// by which that could be counted.
type oldest struct {
	help  *prometheus.Desc
	mu    sync.Mutex
	since map[detach.Phase]time.Time
}

// set is told since when each node is at its phase.
func (o *oldest) set(p *phases) {
	since := map[detach.Phase]time.Time{}
	for name, begun := range p.begun {
		if first, there := since[p.of[name]]; !there || begun.Before(first) {
			since[p.of[name]] = begun
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = since
}

// Describe is of prometheus.Collector.
func (o *oldest) Describe(out chan<- *prometheus.Desc) { out <- o.help }

// Collect is of prometheus.Collector.
func (o *oldest) Collect(out chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, phase := range []detach.Phase{detach.Detaching, detach.Attaching} {
		age := 0.0
		if begun, there := o.since[phase]; there {
			age = time.Since(begun).Seconds()
		}
		out <- prometheus.MustNewConstMetric(o.help, prometheus.GaugeValue, age, string(phase))
	}
}

// announcements are the events of a node that comes to a phase.
var announcements = map[detach.Phase]struct{ kind, reason, text string }{
	detach.Held:      {corev1.EventTypeWarning, "DetachmentHeld", "it stays attached: "},
	detach.Detaching: {corev1.EventTypeNormal, "DetachmentBegun", "it is taken out of its load balancers: "},
	detach.Detached:  {corev1.EventTypeNormal, "NodeDetached", "no traffic reaches it any more"},
	detach.Attaching: {corev1.EventTypeNormal, "AttachmentBegun", "it is put back into its load balancers"},
	detach.Attached:  {corev1.EventTypeNormal, "NodeAttached", "every target it had takes traffic again"},
}

// phases are those in which the nodes were seen last, and since when they are under way.
type phases struct {
	of    map[string]detach.Phase
	begun map[string]time.Time
	// returning are nodes of which it was told that pods would come back.
	returning map[string]bool
}

// report tells of what changed, and says when to look again. What failed is tried again,
// and nothing that is due waits for that.
func (r *Reconciler) report(ctx context.Context, o *observed, d detach.Decision, failed error) (again time.Time) {
	r.tell(o, d)
	// Nobody tells when an eviction that was refused a moment ago may succeed.
	due := onepass.Earliest(d.WakeAt, r.stops.next(time.Now()))
	return r.retries.Again(ctx, due, failed)
}

func (r *Reconciler) tell(o *observed, d detach.Decision) {
	r.webhooks.forget(o.attachments)
	r.stops.forget(o.state.Now)
	counts, seen := map[detach.Phase]int{}, map[string]bool{}
	for _, n := range d.Nodes {
		counts[n.Phase]++
		// One about which not all was done has not come there.
		seen[n.Name] = n.Phase != detach.Attached || o.undone[n.Name]
		if !o.undone[n.Name] {
			r.arrived(o, n)
		}
	}
	for name := range r.phases.of {
		if !seen[name] {
			r.arrived(o, detach.NodeDecision{Name: name, Phase: detach.Attached})
		}
	}
	for _, s := range []detach.Phase{detach.Held, detach.Detaching, detach.Detached, detach.Attaching, detach.Gone} {
		nodesByPhase.WithLabelValues(string(s)).Set(float64(counts[s]))
	}
	longestMove.set(r.phases)
}

// arrived tells of a node that came to a phase.
func (r *Reconciler) arrived(o *observed, d detach.NodeDecision) {
	s, node := r.phases, o.nodes[d.Name]
	if node != nil && len(d.Returning) > 0 && !s.returning[d.Name] {
		p := d.Returning[0]
		s.returning[d.Name] = true
		r.recorder.Eventf(node, nil, corev1.EventTypeWarning, "PodsNotStopped", "StopPods",
			"%d pods are left running, because they tolerate every taint and would come back, such as %s/%s", len(d.Returning), p.Namespace, p.Name)
	}
	before, now := s.of[d.Name], d.Phase
	if before == now {
		return
	}
	s.of[d.Name] = now
	switch now {
	case detach.Detaching, detach.Attaching:
		s.begun[d.Name] = o.state.Now
	case detach.Gone:
		// It comes to no end, or from now on once more.
		delete(s.begun, d.Name)
	case detach.Detached, detach.Attached:
		if begun, ok := s.begun[d.Name]; ok {
			movesTook.WithLabelValues(string(now)).Observe(o.state.Now.Sub(begun).Seconds())
			delete(s.begun, d.Name)
		}
	}
	if a, ok := announcements[now]; ok && node != nil && (before != "" || now != detach.Attached) {
		text := a.text
		switch now {
		case detach.Held:
			text += d.Waits
		case detach.Detaching:
			text += string(d.Reason)
		}
		r.recorder.Eventf(node, nil, a.kind, a.reason, string(now), "%s", text)
	}
	if now == detach.Attached {
		delete(s.of, d.Name)
		delete(s.returning, d.Name)
	}
}
