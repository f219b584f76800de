package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// kubeletPort is where a kubelet listens unless the operator chooses another port.
const kubeletPort = 10250

// Measure makes one measurement of a check of the analysis; nil is a pass.
type Measure func(ctx context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error

// measuring has the measurements of all IngressDaemonSets made, beside everything else and in turns.
type measuring struct {
	make Measure
	now  func() time.Time
	// beside has something done beside everything else.
	beside func(func())

	mu    sync.Mutex
	turns *turns
}

func newMeasuring(make Measure, now func() time.Time) *measuring {
	return &measuring{make: make, now: now, beside: func(do func()) { go do() }, turns: newTurns()}
}

// takeTurns begins what can be. m.mu is held.
func (m *measuring) takeTurns() {
	for next, ok := m.turns.take(); ok; next, ok = m.turns.take() {
		m.beside(func() {
			next.do()
			m.mu.Lock()
			defer m.mu.Unlock()
			m.turns.end(next.set)
			m.takeTurns()
		})
	}
}

// measurements are those of one IngressDaemonSet. The last of each check is kept until the next; a
// controller that dies loses at most those that are not in the status yet, and makes them again.
type measurements struct {
	set types.NamespacedName
	// changed is called when one is done.
	changed func()

	// measuring is shared by all. Its lock guards what follows.
	measuring *measuring
	done      map[string]rollout.Measurement
	// underWay is what each check is measured for.
	underWay map[string]string
}

func newMeasurements(set types.NamespacedName, changed func(), by *measuring) *measurements {
	return &measurements{set: set, changed: changed, measuring: by, done: map[string]rollout.Measurement{}, underWay: map[string]string{}}
}

// last are the last measurements.
func (m *measurements) last() []rollout.Measurement {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.done), func(a, b rollout.Measurement) int { return strings.Compare(a.Check, b.Check) })
}

// stored notes which of the last measurements a status of the API server counts.
func (m *measurements) stored(status *v1alpha1.AnalysisStatus) {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	for check, one := range m.done {
		one.Counted = one.Counted || one.In(status)
		m.done[check] = one
	}
}

// end has no more of them made. What is under way comes to nothing.
func (m *measurements) end() {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	clear(m.done)
	clear(m.underWay)
	m.measuring.turns.forget(m.set)
}

// begin makes a measurement when it is its turn, unless that waits or is under way, or no status that was stored counts
// the last one yet: the next would take its place. It may have been made after the pass that asks has looked, and the
// status that was to count it may have been refused.
func (m *measurements) begin(check v1alpha1.AnalysisCheck, analysis string, wave rollout.Wave) {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	last, made := m.done[check.Name]
	if m.underWay[check.Name] == analysis || made && last.Analysis == analysis && !last.Counted {
		return
	}
	m.underWay[check.Name] = analysis
	do := func() { m.finish(check, analysis, wave) }
	m.measuring.turns.waiting = append(m.measuring.turns.waiting, queued{set: m.set, do: do})
	m.measuring.takeTurns()
}

// wanted reports whether nobody asks for another measurement of the check by now.
func (m *measurements) wanted(check, analysis string) bool {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	return m.underWay[check] == analysis
}

func (m *measurements) finish(check v1alpha1.AnalysisCheck, analysis string, wave rollout.Wave) {
	if !m.wanted(check.Name, analysis) {
		return
	}
	one := rollout.Measurement{Check: check.Name, Analysis: analysis}
	if err := m.recovering(check, wave); err != nil {
		one.Failure = shortened(err.Error())
		if on := (&rollout.NodesFailed{}); errors.As(err, &on) {
			one.FailedOn = on.Nodes
		}
	}
	one.At = m.measuring.now()
	if m.keep(one) {
		m.changed()
	}
}

// keep keeps a measurement, unless it is measured for another wave by now, or the IngressDaemonSet is
// gone.
func (m *measurements) keep(one rollout.Measurement) bool {
	m.measuring.mu.Lock()
	defer m.measuring.mu.Unlock()
	if m.underWay[one.Check] != one.Analysis {
		return false
	}
	delete(m.underWay, one.Check)
	m.done[one.Check] = one
	return true
}

// recovering makes a measurement. One that panics has failed: it reads what others answer,
// and would otherwise end this controller and, after it, each next leader.
func (m *measurements) recovering(check v1alpha1.AnalysisCheck, wave rollout.Wave) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Log.Error(nil, "a measurement panicked", "ingressdaemonset", m.set, "check", check.Name, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("measuring it failed by a fault of the controller, whose log says more")
		}
	}()
	return m.measuring.make(context.Background(), check, wave)
}

// measure begins a measurement of the wave that is judged.
func (r *Reconciler) measure(o *observed, s rollout.Step) error {
	wave := r.measured(o)
	for _, check := range o.strategy.Analysis {
		if check.Name != s.Check {
			continue
		}
		if check.HTTP != nil {
			// Whoever answers on others is no pod of the wave.
			wave.Nodes = slices.DeleteFunc(wave.Nodes, func(n rollout.WaveNode) bool { return !o.nodes[n.Name].reading.out.Runs(wave.Revision) })
		}
		// No answer of no node says nothing. It is asked again when one is Ready.
		if check.HTTP == nil || len(wave.Nodes) > 0 {
			o.session.measurements.begin(check, s.Analysis, wave)
		}
	}
	return nil
}

// checkChecks finds checks of which no measurement would say anything of the template, neither
// before a wave nor of the one that is judged.
func (r *Reconciler) checkChecks(o *observed) {
	wave := rollout.Wave{Namespace: o.set.Namespace, Name: o.set.Name}
	if a := o.set.Status.Analysis; a != nil && a.Revision == o.state.Revision && (a.Phase == v1alpha1.AnalysisOfWave || a.Phase == v1alpha1.AnalysisMeasuring) {
		wave = r.measured(o)
	}
	for _, check := range o.strategy.Analysis {
		if err := r.checkAnalysis(check, wave); err != nil {
			o.fault(v1alpha1.ReasonAnalysisInvalid, fmt.Sprintf("check %s: %v", check.Name, err))
		}
	}
}

// measured is the wave as it is measured: a NotReady node tells nothing of its pods, one
// that has left is not the template's. Its ports are those of the template that is measured, and of
// a node those on which a pod may listen that runs there: others may be anybody's.
func (r *Reconciler) measured(o *observed) rollout.Wave {
	wave := rollout.Wave{Namespace: o.set.Namespace, Name: o.set.Name}
	if a := o.set.Status.Analysis; a != nil {
		wave.Revision = a.Revision
		if template, err := o.templateOf(a.Revision); err == nil {
			wave.Ports = objects.OwnPorts(o.set, &template)
		}
		for _, name := range a.Nodes {
			if n := o.nodes[name]; n != nil && n.node != nil && n.reading.out.Wanted && n.reading.out.Ready {
				wave.Nodes = append(wave.Nodes, rollout.WaveNode{Name: name, Address: nodeAddress(n.node), Ports: o.heldPorts(n, wave)})
			}
		}
	}
	for _, n := range o.nodes {
		wave.Kubelets = append(wave.Kubelets, oddKubelets(n.node)...)
	}
	return wave
}

// heldPorts are those of the wave's ports that pods may listen on which run on the node: of the
// template that is measured, and health checkers. What pods say of themselves, anybody who may
// make pods says of his own; where they listen, their spec tells.
func (o *observed) heldPorts(n *nodeObjects, wave rollout.Wave) []int32 {
	var held []int32
	for _, port := range wave.Ports {
		listens := func(pod *corev1.Pod) bool {
			own := placeOf(pod).port == objects.PortLabel(port) || pod.Labels[v1alpha1.LabelRevision] == wave.Revision
			return own && pod.Spec.NodeName == n.node.Name && objects.MayListen(pod, nodeAddress(n.node), port)
		}
		if slices.ContainsFunc(n.pods, listens) || slices.ContainsFunc(n.checkers, listens) {
			held = append(held, port)
		}
	}
	return held
}

// oddKubelets are where a node's kubelet listens, unless that is at the port at which all do.
func oddKubelets(node *corev1.Node) []netip.AddrPort {
	if node == nil {
		return nil
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 || port > math.MaxUint16 || port == kubeletPort {
		return nil
	}
	var out []netip.AddrPort
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, netip.AddrPortFrom(address.Unmap(), uint16(port)))
		}
	}
	return out
}
