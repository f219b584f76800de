package controller

import (
	"context"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// kubeletPort is where a kubelet listens unless the operator chooses another port.
const kubeletPort = 10250

// Measure makes one measurement of a check of the analysis; nil is a pass.
type Measure func(ctx context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error

// measurements are made beside everything else, in turns. The last of each check is
// kept until the next; a controller that dies loses at most those that are not in the
// status yet, and makes them again.
type measurements struct {
	make Measure
	// changed is called when one is done.
	changed func(types.NamespacedName)
	now     func() time.Time
	// beside has something done beside everything else.
	beside func(func())

	mu   sync.Mutex
	done map[types.NamespacedName]map[string]rollout.Measurement
	// underWay is what each check is measured for.
	underWay map[types.NamespacedName]map[string]string
	turns    *turns
}

func newMeasurements(make Measure, changed func(types.NamespacedName), now func() time.Time) *measurements {
	return &measurements{
		make: make, changed: changed, now: now,
		beside:   func(do func()) { go do() },
		done:     map[types.NamespacedName]map[string]rollout.Measurement{},
		underWay: map[types.NamespacedName]map[string]string{},
		turns:    newTurns(),
	}
}

// of are the last measurements for an IngressDaemonSet.
func (m *measurements) of(set types.NamespacedName) []rollout.Measurement {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []rollout.Measurement
	for _, one := range m.done[set] {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b rollout.Measurement) int { return strings.Compare(a.Check, b.Check) })
	return out
}

// stored notes which of the last measurements a status of the API server counts.
func (m *measurements) stored(set types.NamespacedName, status *v1alpha1.AnalysisStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for check, one := range m.done[set] {
		one.Counted = one.Counted || one.In(status)
		m.done[set][check] = one
	}
}

func (m *measurements) forget(set types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.done, set)
	delete(m.underWay, set)
	m.turns.forget(set)
}

// begin makes a measurement when it is its turn, unless that waits or is under way.
func (m *measurements) begin(set types.NamespacedName, check v1alpha1.AnalysisCheck, analysis string, wave rollout.Wave) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.underWay[set][check.Name] == analysis {
		return
	}
	if m.underWay[set] == nil {
		m.underWay[set], m.done[set] = map[string]string{}, map[string]rollout.Measurement{}
	}
	m.underWay[set][check.Name] = analysis
	do := func() { m.finish(set, check, analysis, wave) }
	m.turns.waiting = append(m.turns.waiting, queued{set: set, do: do})
	m.takeTurns()
}

// takeTurns begins what can be. m.mu is held.
func (m *measurements) takeTurns() {
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

// wanted reports whether nobody asks for another measurement of the check by now.
func (m *measurements) wanted(set types.NamespacedName, check, analysis string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.underWay[set][check] == analysis
}

func (m *measurements) finish(set types.NamespacedName, check v1alpha1.AnalysisCheck, analysis string, wave rollout.Wave) {
	if !m.wanted(set, check.Name, analysis) {
		return
	}
	one := rollout.Measurement{Check: check.Name, Analysis: analysis}
	if err := m.recovering(set, check, wave); err != nil {
		one.Failure = shortened(err.Error())
		if on := (&rollout.NodesFailed{}); errors.As(err, &on) {
			one.FailedOn = on.Nodes
		}
	}
	one.At = m.now()
	m.mu.Lock()
	if m.underWay[set][check.Name] != analysis {
		// It is measured for another wave by now, or the IngressDaemonSet is gone.
		m.mu.Unlock()
		return
	}
	delete(m.underWay[set], check.Name)
	m.done[set][check.Name] = one
	m.mu.Unlock()
	m.changed(set)
}

// recovering makes a measurement. One that panics has failed: it reads what others answer,
// and would otherwise end this controller and, after it, each next leader.
func (m *measurements) recovering(set types.NamespacedName, check v1alpha1.AnalysisCheck, wave rollout.Wave) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Log.Error(nil, "a measurement panicked", "ingressdaemonset", set, "check", check.Name, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("measuring it failed by a fault of the controller, whose log says more")
		}
	}()
	return m.make(context.Background(), check, wave)
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
			r.measurements.begin(client.ObjectKeyFromObject(o.set), check, s.Analysis, wave)
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
