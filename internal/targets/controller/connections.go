package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// askEvery is the time between an answer and the next question.
	askEvery = 3 * time.Second
	// mostAsked is how many questions are under way at once.
	mostAsked = 16
	// mostRemembered is of how many ports of a node that are told no more it is remembered when
	// connections came.
	mostRemembered = 256
)

// connections asks the health checkers of nodes, while targets there are leaving,
// whether connections still come. All that it knows may be lost.
type connections struct {
	// trigger calls for another pass.
	trigger func()
	slots   chan struct{}

	mu   sync.Mutex
	asks map[healthclient.Port]*asks
}

// asks are the questions to one health checker.
type asks struct {
	stop context.CancelFunc
	// told is what it told last, by port; a port of which nothing is known may be in it.
	told map[int32]targets.Quiet
}

func newConnections(trigger func()) *connections {
	return &connections{trigger: trigger, slots: make(chan struct{}, mostAsked), asks: map[healthclient.Port]*asks{}}
}

// want sets which health checkers are asked, until ctx is done.
func (c *connections) want(ctx context.Context, wanted []healthclient.Port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, a := range c.asks {
		if !slices.Contains(wanted, at) {
			a.stop()
			delete(c.asks, at)
		}
	}
	for _, at := range wanted {
		if c.asks[at] == nil {
			ctx, stop := context.WithCancel(ctx)
			c.asks[at] = &asks{stop: stop}
			go c.follow(ctx, at, c.asks[at])
		}
	}
}

// known is what was told last of the ports of nodes.
func (c *connections) known() map[string]map[int32]targets.Quiet {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]map[int32]targets.Quiet{}
	for at, a := range c.asks {
		if a.told != nil {
			out[at.Node] = a.told
		}
	}
	return out
}

// follow asks one health checker again and again.
func (c *connections) follow(ctx context.Context, at healthclient.Port, a *asks) {
	for ctx.Err() == nil {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		answer, err := at.Connections(ctx)
		<-c.slots
		if err != nil && ctx.Err() == nil {
			ctrl.Log.WithName("targets").V(1).Info("connections are not known", "node", at.Node, "error", err)
		}
		c.enter(a, answer, asked, time.Now())
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
		}
	}
}

// enter keeps an answer, and calls for a pass where a port has been quiet for long.
func (c *connections) enter(a *asks, answer []v1alpha1.PortConnections, asked, answered time.Time) {
	c.mu.Lock()
	before := a.told
	a.told = heard(before, answer, asked, answered)
	news := false
	for port, q := range a.told {
		news = news || q.Long() && !before[port].Long()
	}
	c.mu.Unlock()
	if news {
		c.trigger()
	}
}

// heard is what is known of each port after one more answer, nil for none. The times
// are the latest in which its connections can have come, and the earliest up to which
// none did. What is not told breaks off a quiet time.
func heard(before map[int32]targets.Quiet, answer []v1alpha1.PortConnections, asked, answered time.Time) map[int32]targets.Quiet {
	after := map[int32]targets.Quiet{}
	for port, q := range before {
		if len(after) < mostRemembered {
			after[port] = targets.Quiet{Came: q.Came}
		}
	}
	for _, p := range answer {
		q := after[p.Port]
		if p.Unknown == "" && p.CameSeconds != nil {
			q.Came = later(q.Came, asked.Add(-healthclient.Ago(*p.CameSeconds)))
		}
		switch {
		case p.Unknown != "":
		case p.Open > 0:
		default:
			q.From, q.To = answered.Add(-healthclient.Ago(p.QuietSeconds)), asked
		}
		after[p.Port] = q
	}
	return after
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// setName is the IngressDaemonSet of a pod, by its namespace and label.
type setName struct{ namespace, label string }

// checkersOf are the health checkers that see the connections to nodes, by node: where just
// one IngressDaemonSet has pods on a node, on the network of the node.
func checkersOf(nodes []*corev1.Node, sets []v1alpha1.IngressDaemonSet, pods []*corev1.Pod) map[string]healthclient.Port {
	on := map[string]map[setName]bool{}
	for _, pod := range pods {
		node := pod.Spec.NodeName
		if !pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			// Nothing of it listens there.
			continue
		}
		if on[node] == nil {
			on[node] = map[setName]bool{}
		}
		on[node][setName{pod.Namespace, pod.Labels[v1alpha1.LabelName]}] = true
	}
	ports := map[setName]int32{}
	for i := range sets {
		if spec := &sets[i].Spec; spec.Template.Spec.HostNetwork && len(spec.HealthCheckNodePorts) > 0 {
			ports[setName{sets[i].Namespace, v1alpha1.LabelValue(sets[i].Name)}] = spec.HealthCheckNodePorts[0]
		}
	}
	out := map[string]healthclient.Port{}
	for _, node := range nodes {
		for set := range on[node.Name] {
			address, port := internalAddress(node), ports[set]
			if len(on[node.Name]) == 1 && port != 0 && address != "" {
				out[node.Name] = healthclient.Port{Node: node.Name, Address: address, Number: port}
			}
		}
	}
	return out
}

// chosen are the health checkers of some nodes.
func chosen(all map[string]healthclient.Port, nodes []string) []healthclient.Port {
	var out []healthclient.Port
	for _, name := range nodes {
		if at, known := all[name]; known {
			out = append(out, at)
		}
	}
	return out
}

// internalAddress is where a load balancer's health checks reach the node.
func internalAddress(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
