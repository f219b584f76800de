package controller

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// healthStories are stories that tools which judge an object by its status have to judge rightly, from its
// creation on. tools/health has them judge what is recorded here.
var healthStories = []story{
	{"rollout", "It is created, and gets a new template.", 2, byHealthCheck,
		func(t *teller) { t.newTemplate("r2", 2*time.Minute) }},

	{"paused", "It is paused while old nodes are left, and resumed.", 2, byHealthCheck,
		func(t *teller) {
			t.newTemplate("r2", 5*time.Second)
			t.edit("pauses", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = true }, time.Minute)
			t.edit("resumes", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = false }, 2*time.Minute)
		}},

	{"partition", "Half of the nodes are held at the old template.", 4,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.UpdateStrategy.RollingUpdate.Partition = percent(50)
		},
		func(t *teller) { t.newTemplate("r2", 3*time.Minute) }},

	{"blocked", "A node is dead, so that no other one may be taken out, and comes back.", 2, byHealthCheck,
		func(t *teller) {
			t.does("machine", "n1 loses power", func() { t.kill(t.nodes["n1"]) }, time.Minute)
			t.newTemplate("r2", time.Minute)
			t.does("machine", "n1 is started again", func() { t.revive(t.nodes["n1"]) }, 3*time.Minute)
		}},

	{"halt", "A detacher does not answer, so that the rollout halts until it is retried.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byBoth(s)
			s.UpdateStrategy.RollingUpdate.DetachTimeoutSeconds = new(int32(60))
		},
		func(t *teller) {
			t.does("detacher", "crashes", func() { t.detacher.answers = false }, 0)
			t.newTemplate("r2", 3*time.Minute)
			t.does("detacher", "is back", t.detacherReturns, time.Minute)
			t.edit("pauses", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = true }, time.Second)
			t.edit("resumes", func(s *v1alpha1.IngressDaemonSetSpec) { s.Paused = false }, 3*time.Minute)
		}},

	{"deadline", "New pods never become ready, and no policy says what to do about it.", 2,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			byHealthCheck(s)
			s.ProgressDeadlineSeconds = new(int32(60))
		},
		func(t *teller) {
			t.spoil("r2", t.bad)
			t.newTemplate("r2", 3*time.Minute)
			t.newTemplate("r1", 3*time.Minute)
		}},

	{"rollback", "A template fails its analysis and is taken back. The next one, by which git is mended, is not.", 3,
		func(s *v1alpha1.IngressDaemonSetSpec) {
			analysed(s)
			s.UpdateStrategy.RollingUpdate.FailurePolicy = v1alpha1.RollBackOnFailure
		},
		func(t *teller) {
			t.spoil("r2", t.misbehaves)
			t.newTemplate("r2", 3*time.Minute)
			t.newTemplate("r1", 3*time.Minute)
		}},

	{"deletion", "It is deleted, and goes when each node was let go.", 2, byBoth,
		func(t *teller) {
			t.does("user", "deletes the IngressDaemonSet", func() { t.remove(rollout.DeleteInWaves) }, 2*time.Minute)
		}},
}

// TestRecordedHealth keeps in testdata/health each state of an IngressDaemonSet that is told from the one
// before by who judges it, as the API server shows it.
func TestRecordedHealth(t *testing.T) {
	for _, s := range healthStories {
		golden.Test(t, *update, filepath.Join("testdata", "health", s.name+".jsonl"), s.record)
	}
}

// record plays a story, and gives the states as JSON, one in a line.
func (s story) record(t *testing.T) string {
	w := newWorld(0)
	var out bytes.Buffer
	last := ""
	changed := w.api.Changed
	w.api.Changed = func(before, after client.Object) {
		changed(before, after)
		set, ours := after.(*v1alpha1.IngressDaemonSet)
		if !ours || judged(set) == last {
			return
		}
		last = judged(set)
		line, err := json.Marshal(stateOf(w.now.Sub(start), set))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	s.playIn(w)
	for _, fault := range w.audit.faults {
		t.Error(fault)
	}
	return out.String()
}

// judged is all by which a state is judged, but for when.
func judged(set *v1alpha1.IngressDaemonSet) string {
	about := fmt.Sprint(set.Generation, set.Status.ObservedGeneration, set.DeletionTimestamp != nil, set.Spec.Paused)
	for _, kind := range kstatus.Conditions {
		if c := meta.FindStatusCondition(set.Status.Conditions, kind); c != nil {
			about += fmt.Sprint(c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return about
}

// state is an object at a moment of its story.
type state struct {
	At     string         `json:"at"`
	Object map[string]any `json:"object"`
}

// stateOf is the object without the template and what the server alone is about.
func stateOf(at time.Duration, set *v1alpha1.IngressDaemonSet) state {
	metadata := map[string]any{"namespace": set.Namespace, "name": set.Name, "generation": set.Generation}
	if set.DeletionTimestamp != nil {
		metadata["deletionTimestamp"] = set.DeletionTimestamp
	}
	status := set.Status.DeepCopy()
	slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return state{At: fmt.Sprintf("%.2fs", at.Seconds()), Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind.Kind, "metadata": metadata,
		"spec": map[string]any{"paused": set.Spec.Paused}, "status": status,
	}}
}
