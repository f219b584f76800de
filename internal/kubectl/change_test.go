package kubectl

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// records are the revisions of two earlier templates and the present one.
func records(t *testing.T, set *v1alpha1.IngressDaemonSet) []appsv1.ControllerRevision {
	t.Helper()
	var out []appsv1.ControllerRevision
	for i, image := range []string{"nginx:1.20", "nginx:1.21", "nginx:1.22"} {
		s := set.DeepCopy()
		s.Spec.Template.Spec.Containers[0].Image = image
		r, err := objects.ControllerRevision(s, objects.Revision(objects.Template(s)), int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, *r)
	}
	foreign := *out[0].DeepCopy()
	foreign.OwnerReferences[0].UID, foreign.Revision = "other", 9
	return ownRevisions(set, append(out, foreign))
}

func TestUndo(t *testing.T) {
	for name, test := range map[string]struct {
		number      int64
		image, says string
	}{
		"the one before": {0, "nginx:1.21", "rolled back to revision 2"},
		"an older one":   {1, "nginx:1.20", "rolled back to revision 1"},
		"the present":    {3, "nginx:1.22", "is the present template"},
		"none such":      {9, "nginx:1.22", "unable to find revision 9"},
	} {
		t.Run(name, func(t *testing.T) {
			set := midway()
			says, err := undo(set, records(t, set), test.number)
			if err != nil {
				says = err.Error()
			}
			if image := set.Spec.Template.Spec.Containers[0].Image; image != test.image || !strings.Contains(says, test.says) {
				t.Errorf("%s, %q", image, says)
			}
		})
	}
	if _, err := undo(midway(), nil, 0); err == nil {
		t.Error("went back to nothing")
	}
}

// TestUndoOfAnUndo does not go back to the template that the fleet is leaving, unless it is
// told to; one that has left it may.
func TestUndoOfAnUndo(t *testing.T) {
	for name, c := range map[string]struct {
		seen    bool
		updated int32
		number  int64
		says    string
	}{
		"not seen yet":  {false, 4, 0, "which it is leaving; --to-revision 2 goes there all the same"},
		"on its way":    {true, 3, 0, "which it is leaving; --to-revision 2 goes there all the same"},
		"by its number": {true, 3, 2, "rolled back to revision 2"},
		"complete":      {true, 4, 0, "rolled back to revision 2"},
	} {
		t.Run(name, func(t *testing.T) {
			set := midway()
			set.Status.CurrentRevision, set.Status.UpdatedNodes = objects.Revision(objects.Template(set)), c.updated
			if c.seen {
				set.Status.UpdateRevision = set.Status.CurrentRevision
			}
			says, err := undo(set, records(t, set), c.number)
			if err != nil {
				says = err.Error()
			}
			if !strings.Contains(says, c.says) || (err == nil) != (set.Spec.Template.Spec.Containers[0].Image == "nginx:1.21") {
				t.Errorf("%q, and the spec has %s", says, set.Spec.Template.Spec.Containers[0].Image)
			}
		})
	}
}

// TestUndoLeavesOutWhatIsAdded writes only what the user wrote back into the spec, so
// that the drain hook follows later changes of its port, or goes. A revision that only
// differs in what is added is none to go back to.
func TestUndoLeavesOutWhatIsAdded(t *testing.T) {
	for name, forget := range map[string]bool{"recorded now": false, "recorded by v0.1.0": true} {
		set := midway()
		set.Spec.DrainHook, set.Spec.Selector = &v1alpha1.DrainHook{}, &v1alpha1.Selector{MatchLabels: map[string]string{"app": "nginx"}}
		all := records(t, set)
		for i := range all {
			if forget {
				all[i].Annotations = nil
			}
		}
		set.Spec.HealthCheckNodePorts = []int32{10090}
		says, err := undo(set, all, 0)
		if err != nil || says != "rolled back to revision 2" {
			t.Errorf("%s: %q, %v", name, says, err)
		}
		c := set.Spec.Template.Spec.Containers[0]
		if c.Image != "nginx:1.21" || c.Lifecycle != nil || len(set.Spec.Template.Annotations) != 0 {
			t.Errorf("%s: the spec has %+v, %v", name, c, set.Spec.Template.Annotations)
		}
		if hook := objects.Template(set).Spec.Containers[0].Lifecycle.PreStop.HTTPGet; hook.Port.IntVal != 10090 {
			t.Errorf("%s: the hook asks %v", name, hook)
		}
		if _, err := undo(set, all, 2); err == nil || !strings.Contains(err.Error(), "revision 2 is the present template") {
			t.Errorf("%s: went back to where it was: %v", name, err)
		}
		if text, err := historyText(set, all, 2, ""); err != nil || strings.Contains(text, "preStop") {
			t.Errorf("%s: history shows %v\n%s", name, err, text)
		}
	}
}

func TestHistory(t *testing.T) {
	set := midway()
	all := records(t, set)
	set.Status.CurrentRevision = all[1].Labels[v1alpha1.LabelRevision]
	text, err := historyText(set, all, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, *update, filepath.Join("testdata", "history.txt"), text)
	if text, err = historyText(set, all, 1, ""); err != nil || !strings.Contains(text, "image: nginx:1.20") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err = historyText(set, all, 7, ""); err == nil {
		t.Error("shows what is not on record")
	}
}

func TestSwitches(t *testing.T) {
	set := midway()
	for _, step := range []struct {
		do    func(*v1alpha1.IngressDaemonSet) (string, error)
		says  string
		fails bool
	}{
		{resume, "", true}, {pause, "paused", false}, {pause, "", true},
		{func(s *v1alpha1.IngressDaemonSet) (string, error) { return restart(s, now) }, "", true},
		{resume, "resumed", false}, {promote, "", true},
		{func(s *v1alpha1.IngressDaemonSet) (string, error) { return restart(s, now) }, "restarted", false},
	} {
		if says, err := step.do(set); says != step.says || (err != nil) != step.fails {
			t.Errorf("%q, %v, want %q", says, err, step.says)
		}
	}
	if at := set.Spec.Template.Annotations[annotationRestartedAt]; at != "2026-01-01T12:00:00Z" {
		t.Errorf("restarted at %q", at)
	}
}

// TestPromote goes past the analysis that holds up the rollout, and past the partition
// only where that is said: from 90% held back, that is the fleet.
func TestPromote(t *testing.T) {
	const fleet = "The partition keeps 90% of the nodes as they are; --partition goes past it"
	phase := func(phase v1alpha1.AnalysisPhase) func(*v1alpha1.IngressDaemonSet) {
		return func(set *v1alpha1.IngressDaemonSet) { set.Status.Analysis.Phase = phase }
	}
	for name, c := range map[string]struct {
		change        func(*v1alpha1.IngressDaemonSet)
		times         int
		past          bool
		says, refuses string
		partition     bool
	}{
		"measuring": {phase(v1alpha1.AnalysisMeasuring), 1, false, "promoted past the analysis of the last wave", "", true},
		"failed":    {phase(v1alpha1.AnalysisFailed), 1, false, "promoted past the analysis of the last wave", "", true},
		"twice":     {phase(v1alpha1.AnalysisMeasuring), 2, false, "", "the last wave is promoted already. " + fleet, true},
		"wave":      {phase(v1alpha1.AnalysisOfWave), 1, false, "", "the nodes of the wave are still under way, and are measured when they serve. " + fleet, true},
		"passed":    {phase(v1alpha1.AnalysisPassed), 1, false, "", "the last wave has passed its analysis. " + fleet, true},
		"rejected": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Analysis.Phase = v1alpha1.AnalysisFailed
			set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: set.Status.Analysis.Revision}
		}, 1, false, "", "was rejected, and stays so until the template changes. " + fleet, true},
		"of an earlier template": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Analysis.Phase = v1alpha1.AnalysisMeasuring
			set.Spec.Template.Spec.Containers[0].Image = "nginx:1.23"
		}, 1, false, "", "no analysis holds up the rollout. " + fleet, true},
		"analysis removed": {func(set *v1alpha1.IngressDaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Analysis = nil
		}, 1, false, "", "no analysis holds up the rollout. " + fleet, true},
		"nothing at all": {func(set *v1alpha1.IngressDaemonSet) {
			set.Status.Analysis, set.Spec.UpdateStrategy.RollingUpdate = nil, nil
		}, 1, false, "", "there is nothing to promote: no analysis holds up the rollout", false},

		"past the partition":        {phase(v1alpha1.AnalysisPassed), 1, true, "promoted past the partition, which kept 90% of the nodes as they were", "", false},
		"past the partition, twice": {phase(v1alpha1.AnalysisPassed), 2, true, "", "there is nothing to promote: no partition holds nodes back", false},
		"past a partition of nothing": {func(set *v1alpha1.IngressDaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromString("0%"))
		}, 1, true, "", "no partition holds nodes back", true},
		"past no strategy": {func(set *v1alpha1.IngressDaemonSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }, 1, true, "", "no partition holds nodes back", false},
	} {
		t.Run(name, func(t *testing.T) {
			set := midway()
			u := set.Spec.UpdateStrategy.RollingUpdate
			u.Partition, u.Analysis = new(intstr.FromString("90%")), []v1alpha1.AnalysisCheck{{Name: "shop"}}
			set.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: objects.Revision(objects.Template(set)), Began: metav1.NewMicroTime(now), Phase: v1alpha1.AnalysisMeasuring}
			c.change(set)
			edit := promote
			if c.past {
				edit = promoteFleet
			}
			says, err := "", error(nil)
			for range c.times {
				says, err = edit(set)
			}
			if says != c.says || (err != nil) != (c.refuses != "") || err != nil && !strings.HasSuffix(err.Error(), c.refuses) {
				t.Errorf("%q, %v; want %q, %q", says, err, c.says, c.refuses)
			}
			if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && (u.Partition != nil) != c.partition {
				t.Errorf("the partition is %v", u.Partition)
			}
			if promoted := set.Annotations[v1alpha1.AnnotationPromoted]; c.says != "" && !c.past && promoted != "2026-01-01T12:00:00Z" {
				t.Errorf("promoted %q", promoted)
			}
		})
	}
}

func TestExplanation(t *testing.T) {
	set := midway()
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: "example.com/detach"}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-2", Annotations: map[string]string{
			"example.com/detach": "true", v1alpha1.AnnotationDetachPrefix + "1": now.Format(time.RFC3339), v1alpha1.AnnotationDetachPrefix + "2": now.Format(time.RFC3339),
		}},
		Spec:   corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	replicas, deleted := int32(2), ago(time.Second)
	d := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx-node-2", Annotations: map[string]string{
			v1alpha1.AnnotationNode: "node-2", v1alpha1.DefaultMarkKey: "2026-01-01T11:59:48Z",
		}},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRevision: "bbbbbbbbbb"}}}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "new", CreationTimestamp: ago(9 * time.Second), Labels: map[string]string{v1alpha1.LabelRevision: "bbbbbbbbbb"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "old", CreationTimestamp: ago(time.Hour), DeletionTimestamp: &deleted, Labels: map[string]string{v1alpha1.LabelRevision: "aaaaaaaaaa"}}},
	}
	golden.Equal(t, *update, filepath.Join("testdata", "explain.txt"), explanation(set, node.Name, node, []appsv1.Deployment{d}, pods, nil, now))
	node.Name, node.Annotations = "node-9", nil
	golden.Equal(t, *update, filepath.Join("testdata", "explain-not-in-set.txt"), explanation(set, node.Name, node, nil, nil, nil, now))
}

// TestExplanationReadsTheMark as the health checkers do: under the key on record, else
// under the default one, whatever the spec says now, and also where it is empty. One that is
// not the controller's is shown as somebody else's.
func TestExplanationReadsTheMark(t *testing.T) {
	const others = ", set by somebody else"
	set := midway()
	set.Spec.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach = &v1alpha1.AnnotateDeploymentToDetach{Key: "example.com/new"}
	for name, c := range map[string]struct {
		annotations map[string]string
		says        string
	}{
		"default":          {map[string]string{v1alpha1.DefaultMarkKey: "a"}, v1alpha1.DefaultMarkKey + "=a" + others},
		"the controller's": {map[string]string{v1alpha1.DefaultMarkKey: "2026-01-01T11:59:48Z/r"}, v1alpha1.DefaultMarkKey + "=2026-01-01T11:59:48Z/r"},
		"recorded":         {map[string]string{v1alpha1.AnnotationMarkKey: "example.com/old", "example.com/old": "b", v1alpha1.DefaultMarkKey: "a"}, "example.com/old=b" + others},
		"empty":            {map[string]string{v1alpha1.DefaultMarkKey: ""}, v1alpha1.DefaultMarkKey + "=" + others},
		"of the spec":      {map[string]string{"example.com/new": "c"}, "example.com/new=c" + others},
		"none":             {nil, ""},
		"record, no mark":  {map[string]string{v1alpha1.AnnotationMarkKey: "example.com/old", v1alpha1.DefaultMarkKey: "a"}, ""},
	} {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationNode: "node-1"}}}
		d.Spec.Replicas = new(int32(2))
		for key, value := range c.annotations {
			d.Annotations[key] = value
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		text := explanation(set, node.Name, node, []appsv1.Deployment{d}, nil, nil, now)
		_, mark, marked := strings.Cut(text, "made to fail by the mark ")
		mark, _, _ = strings.Cut(mark, "\n")
		if marked != (c.says != "") || mark != c.says {
			t.Errorf("%s: the mark %q, want %q", name, mark, c.says)
		}
	}
}

// TestExplanationReadsTheHold as the controller does: one that is empty, cannot be read or names no revision
// holds nothing back, and is shown as somebody else's.
func TestExplanationReadsTheHold(t *testing.T) {
	const others = "Not held back by " + v1alpha1.AnnotationHold + "="
	for value, says := range map[string]string{
		"": others + ", set by somebody else\n", "{": others + "{, set by somebody else\n", `{"attempts":2}`: others + "{\"attempts\":2}, set by somebody else\n",
		`{"attempts":2,"revision":"r1"}`: "Held back {\"attempts\":2,\"revision\":\"r1\"}\n",
	} {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationNode: "node-1", v1alpha1.AnnotationHold: value}}}
		d.Spec.Replicas = new(int32(2))
		text := explanation(midway(), "node-1", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, []appsv1.Deployment{d}, nil, nil, now)
		if line := text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]; strings.Join(strings.Fields(line), " ") != strings.Join(strings.Fields(says), " ") {
			t.Errorf("%q: %q, want %q", value, line, says)
		}
	}
}

// TestHeldBy tells this IngressDaemonSet from others that ask for a node, and both from people.
func TestHeldBy(t *testing.T) {
	for want, askers := range map[string][]types.UID{
		", set by somebody else":                            nil,
		", asked for by this IngressDaemonSet":              {"1"},
		", asked for by 2 other IngressDaemonSets":          {"2", "3"},
		", asked for by this and 1 other IngressDaemonSets": {"1", "2"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"example.com/other": ""}}}
		for _, uid := range askers {
			node.Annotations[v1alpha1.DetachmentRequestKey(uid)] = ""
		}
		if got := heldBy(midway(), node); got != want {
			t.Errorf("%v: %q, want %q", askers, got, want)
		}
	}
}
