package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	corev1 "k8s.io/api/core/v1"
)

const (
	// lanes is how many tests run at the same time, nodes how many real nodes each has.
	lanes, nodes = 2, 3
	// laneLabel is a label of all nodes, and a taint of those that are not of the first lane: what
	// knows of no lane keeps to that.
	laneLabel = "e2e/lane"
)

// lane is a part of the harness, for one test at a time.
type lane struct {
	*harness.Harness
	number int
}

// free are the lanes on which no test runs.
var free = make(chan *lane, lanes)

// openLanes parts the harness.
func openLanes(ctx context.Context) error {
	for i, on := range theHarness.Split(lanes) {
		l := &lane{on, i}
		for _, n := range l.Nodes() {
			calls := [][]string{{"label", "--overwrite", "node", n.Name(), laneLabel + "=" + l.value()}}
			if l.number > 0 {
				calls = append(calls, []string{"taint", "--overwrite", "node", n.Name(), laneLabel + "=" + l.value() + ":NoSchedule"})
			}
			for _, args := range calls {
				if out, err := theHarness.Kubectl(ctx, args...).CombinedOutput(); err != nil {
					return fmt.Errorf("kubectl %v: %w: %s", args, err, out)
				}
			}
		}
		free <- l
	}
	return theHarness.LabelNodes(ctx)
}

func (l *lane) value() string { return strconv.Itoa(l.number + 1) }

// taken is a lane on which nothing else runs until the test is over.
func taken(t *testing.T) *lane {
	l := <-free
	t.Cleanup(func() { free <- l })
	return l
}

// alone is the first lane, while nothing runs on another: for a test that disturbs the whole cluster, or
// knows of no lane. It does not run in parallel.
func alone(t *testing.T) *lane {
	var first *lane
	for range lanes {
		if l := taken(t); l.number == 0 {
			first = l
		}
	}
	return first
}

// keep has an IngressDaemonSet keep to the lane.
func (l *lane) keep(set *v1alpha1.IngressDaemonSet) {
	set.Spec.NodeSelector = map[string]string{laneLabel: l.value()}
	if l.number > 0 {
		pods := &set.Spec.Template.Spec
		pods.Tolerations = append(pods.Tolerations, corev1.Toleration{Key: laneLabel, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
}
