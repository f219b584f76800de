package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// remains are what a deletion should not have left.
func (w *world) remains(how rollout.Deletion) []string {
	var out []string
	if w.set() != nil {
		out = append(out, "the IngressDaemonSet is still there")
	}
	for _, name := range w.order() {
		d := w.deployments[name]
		if w.audit.strayed[name] {
			continue
		}
		if w.nodes[name].requested() {
			out = append(out, name+" is annotated")
		}
		if d != nil && (how != rollout.DeleteOrphaning || d.marked()) {
			out = append(out, name+" has a Deployment")
		}
	}
	if how == rollout.DeleteInWaves && len(w.daemonSets) > 0 {
		out = append(out, "health checkers are left")
	}
	return out
}

// mustHold fails the test where the audit found something, or something is amiss.
func (w *world) mustHold(t *testing.T, what string, found func() []string) {
	t.Helper()
	if amiss := w.amiss(what, found); amiss != "" {
		t.Fatal(amiss)
	}
}

// describe is the spec and every node in short.
func (w *world) describe() string {
	s := w.spec()
	status := v1alpha1.IngressDaemonSetStatus{}
	if set := w.set(); set != nil {
		status = set.Status
	}
	out := fmt.Sprintf("\n%s\nrevision %s, %d pods, paused %t, ports %v, %+v", inWords(rollout.Decision{Status: status}), w.revision(), s.Pods(), s.Paused, s.HealthCheckNodePorts, s.Strategy())
	for _, name := range w.order() {
		n, d := w.nodes[name], w.deployments[name]
		out += fmt.Sprintf("\n  %s wanted %t ready %t, %v", name, n.wanted(), n.ready(), n.api.Annotations)
		if d != nil {
			out += fmt.Sprintf(", %s x%d, paused %t, %v, %d ready", d.revision(), d.replicas(), d.api.Spec.Paused, d.api.Annotations, w.readyPods(name))
			for _, s := range d.sets {
				out += fmt.Sprintf(", %s:%d", s.revision(), s.size)
			}
		}
	}
	for hash, word := range w.words {
		out = strings.ReplaceAll(out, hash, word)
	}
	return out
}
