package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// refusing is an API server that takes no status while it refuses.
type refusing struct {
	client.Client
	refuses bool
	// refused counts what was.
	refused int
}

func (r *refusing) Status() client.SubResourceWriter { return refusingStatus{r.Client.Status(), r} }

type refusingStatus struct {
	client.SubResourceWriter
	*refusing
}

func (s refusingStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if s.refuses {
		s.refused++
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("ingressdaemonsets").GroupResource(), o.GetName(), errors.New("changed"))
	}
	return s.SubResourceWriter.Update(ctx, o, opts...)
}

// TestStepsAreToldWhenAStatusStands makes the event of a step that was carried out, and counts it, once,
// though statuses are refused for a while: not before one is accepted.
func TestStepsAreToldWhenAStatusStands(t *testing.T) {
	w := newWorld(0)
	w.addNode("n1", nil)
	spec := specOfStories()
	byHealthCheck(&spec)
	spec.UpdateStrategy.RollingUpdate.MinServingNodes = number(0)
	w.begin(spec)
	w.run(start.Add(time.Minute))
	r, recorder := w.leaders[0].r, events.NewFakeRecorder(1000)
	api := &refusing{Client: r.client}
	r.client, r.recorder = api, recorder
	told := func() (updates int) {
		for len(recorder.Events) > 0 {
			if strings.Contains(<-recorder.Events, " PodsUpdated n1: ") {
				updates++
			}
		}
		return updates
	}
	detachments := func() float64 { return gathered(t, theSet.Namespace)["ingressdaemonset_detach_seconds"] }
	before := detachments()
	w.changeTemplate("r2")
	w.run(w.now.Add(5 * time.Second))
	api.refuses = true
	w.run(w.now.Add(15 * time.Second))
	if n := told(); n > 0 || api.refused == 0 {
		t.Errorf("%d statuses were refused, and an update is told %d times", api.refused, n)
	}
	api.refuses = false
	w.run(w.now.Add(2 * time.Minute))
	if n := told(); n != 1 {
		t.Errorf("an update is told %d times", n)
	}
	if n := detachments() - before; n != 1 {
		t.Errorf("%v detachments are counted", n)
	}
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
}

// TestStepsAreLogged says each step once, of which node it is and why; no measurement, which writes
// nothing, and nothing that failed.
func TestStepsAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.look(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	o.nodes["node-1"] = &nodeObjects{node: benchNode(1)}
	for _, s := range []rollout.Step{{Action: "none", Node: "node-1"}, {Action: rollout.DeletePods, Node: "node-1", Reason: "they were rejected"}} {
		if err := r.carryOut(ctx, o, s); (err == nil) != (s.Action == rollout.DeletePods) {
			t.Fatal(err)
		}
	}
	logStep(ctx, rollout.Step{Action: rollout.ApplyChecker, Port: 10080, Reason: "it is missing"})
	logStep(ctx, rollout.Step{Action: rollout.Measure})
	want := []string{
		`"level"=0 "msg"="carried out" "action"="DeletePods" "node"="node-1" "reason"="they were rejected"`,
		`"level"=0 "msg"="carried out" "action"="ApplyChecker" "node"="" "reason"="it is missing" "port"=10080`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
