package controller

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
)

// A story is a world without chance, told as it happens: what people and
// machines do, and what the controller does about it and why. Read those in
// testdata/stories to learn how a rollout goes; they are rewritten with -update.
type story struct {
	name, about string
	nodes       int
	set         func(s *v1alpha1.IngressDaemonSetSpec)
	play        func(t *teller)
}

func TestStories(t *testing.T) {
	for _, s := range stories {
		golden.Test(t, *update, filepath.Join("testdata", "stories", s.name+".txt"), s.tell)
	}
}

// teller plays a story and writes it down.
type teller struct {
	*golden.Story
	*world
}

func (s story) tell(t *testing.T) string {
	w := newWorld(0)
	teller := s.playIn(w)
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
	return teller.String()
}

// playIn plays a story in a world in which nothing is yet, and has it told from when all nodes serve.
func (s story) playIn(w *world) *teller {
	spec := specOfStories()
	s.set(&spec)
	w.detacher.slowest, w.detacher.keys = 2*time.Second, map[string]string{detacherKey: detacherTimestamp}
	for i := range s.nodes {
		w.addNode(fmt.Sprintf("n%d", i+1), nil)
	}
	w.begin(spec)
	w.run(start.Add(time.Minute))
	teller := &teller{golden.NewStory("%8s  %-21s  %s", func() time.Time { return w.now }), w}
	teller.Begin(s.about)
	w.story = teller.Line
	s.play(teller)
	return teller
}

// somebody does something, and then time passes.
func (t *teller) does(who, what string, do func(), pass time.Duration) {
	t.Line(who, what)
	do()
	t.run(t.now.Add(pass))
}

// The annotations by which a detacher is asked, and answers.
const (
	detacherKey       = "node-detacher.variant.run/detached"
	detacherTimestamp = "node-detacher.variant.run/detachment-timestamp"
)

// specOfStories has two pods on a node, and health checks.
func specOfStories() v1alpha1.IngressDaemonSetSpec {
	return v1alpha1.IngressDaemonSetSpec{
		PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080},
		UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{}},
	}
}

func byHealthCheck(s *v1alpha1.IngressDaemonSetSpec) {
	s.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(1)
}

func byAnnotation(s *v1alpha1.IngressDaemonSetSpec) {
	u := s.UpdateStrategy.RollingUpdate
	u.MaxUnavailableNodes = number(1)
	u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: detacherKey, GracePeriodSeconds: new(int32(2))}
	u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{
		Key: detacherTimestamp, GracePeriodSeconds: new(int32(5)),
	}
}

func byBoth(s *v1alpha1.IngressDaemonSetSpec) {
	byAnnotation(s)
	s.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach = &v1alpha1.AnnotateDeploymentToDetach{}
}

func analysed(s *v1alpha1.IngressDaemonSetSpec) {
	byHealthCheck(s)
	s.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{
		{Name: "errors", IntervalSeconds: new(int32(5)), Count: new(int32(2))},
	}
}

func degradedMode(*v1alpha1.IngressDaemonSetSpec) {}

// newTemplate is how most stories begin.
func (t *teller) newTemplate(revision string, pass time.Duration) {
	t.does("user", "changes the template: the revision is "+revision+" now", func() { t.changeTemplate(revision) }, pass)
}

func (t *teller) edit(what string, edit func(*v1alpha1.IngressDaemonSetSpec), pass time.Duration) {
	t.does("user", what, func() { t.change(edit) }, pass)
}
