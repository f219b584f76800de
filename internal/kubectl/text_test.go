package kubectl

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var update = flag.Bool("update", false, "rewrite testdata")

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// midway is an IngressDaemonSet in the middle of a rollout.
func midway() *v1alpha1.IngressDaemonSet {
	budget, updating, broken := intstr.FromInt32(1), ago(12*time.Second), ago(3*time.Hour)
	set := &v1alpha1.IngressDaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx", UID: "1", Generation: 2},
		Spec: v1alpha1.IngressDaemonSetSpec{
			HealthCheckNodePorts: []int32{10080},
			UpdateStrategy:       v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailableNodes: &budget}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nginx"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.22"}}},
			},
		},
		Status: v1alpha1.IngressDaemonSetStatus{
			ObservedGeneration: 2, DesiredNodes: 4, ServingNodes: 2, UnavailableNodes: 2, UpdatedNodes: 1,
			CurrentRevision: "aaaaaaaaaa", UpdateRevision: "bbbbbbbbbb", Wave: []string{"node-2"},
			Nodes: []v1alpha1.NodeStatus{
				{Name: "node-2", State: v1alpha1.NodeUpdating, Since: &updating, Reason: "an older pod is terminating"},
				{Name: "node-4", State: v1alpha1.NodeUnavailable, Since: &broken, Reason: "the Node is NotReady"},
			},
		},
	}
	condition := func(kind, reason string, status metav1.ConditionStatus, message string) {
		set.Status.Conditions = append(set.Status.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 2, LastTransitionTime: ago(time.Minute),
		})
	}
	condition(v1alpha1.ConditionAvailable, v1alpha1.ReasonNodesServing, metav1.ConditionTrue, "at least minServingNodes nodes serve")
	condition(v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut, metav1.ConditionTrue, "nodes are being brought up to date")
	condition(v1alpha1.ConditionDegraded, v1alpha1.ReasonNodesNotServing, metav1.ConditionTrue, "node node-4: the Node is NotReady")
	condition(v1alpha1.ConditionBlocked, v1alpha1.ReasonAsExpected, metav1.ConditionFalse, "")
	kstatus.OfIngressDaemonSet(&set.Status, "").Set(&set.Status.Conditions, 2, ago(time.Minute))
	return set
}

func TestTreeOfARejectedTemplate(t *testing.T) {
	set := midway()
	set.Status.Analysis = &v1alpha1.AnalysisStatus{Revision: "bbbbbbbbbb", Nodes: []string{"node-2"}, Phase: v1alpha1.AnalysisFailed,
		Checks: []v1alpha1.AnalysisCheckStatus{{Name: "shop", Passed: 2, Failed: 1, Message: "node node-2 answered / with status 500"}, {Name: "errors", Passed: 3}}}
	set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: "bbbbbbbbbb", Message: "check shop failed 1 times, 0 are permitted"}
	golden.Equal(t, *update, filepath.Join("testdata", "tree-rejected.txt"), tree(set, "", nil, now, style{}, false))
}

func TestTree(t *testing.T) {
	complete := midway()
	complete.Status.Nodes, complete.Status.Wave = nil, nil
	complete.Status.CurrentRevision, complete.Status.ServingNodes, complete.Status.UnavailableNodes, complete.Status.UpdatedNodes = "bbbbbbbbbb", 4, 0, 4
	unseen := midway()
	unseen.Generation = 3
	paused := midway()
	paused.Spec.Paused = true
	if got := tree(paused, "", nil, now, style{}, false); !strings.Contains(got, "\n  paused     no further node begins until rollout resume\n") {
		t.Errorf("while a node is under way no condition says that it is paused, and the tree does not either:\n%s", got)
	}
	golden.Equal(t, *update, filepath.Join("testdata", "status.txt"), tree(midway(), "", nil, now, style{}, false))
	golden.Equal(t, *update, filepath.Join("testdata", "status-terminal.txt"), tree(midway(), "24s to 16m0s, by how long pods take to stop", nil, now, style{terminal: true}, false))
	golden.Equal(t, *update, filepath.Join("testdata", "status-complete-wide.txt"), tree(complete, "", nil, now, style{terminal: true}, true))
	golden.Equal(t, *update, filepath.Join("testdata", "status-unseen.txt"), tree(unseen, "", nil, now, style{}, false))
	golden.Equal(t, *update, filepath.Join("testdata", "status-new.txt"), tree(&v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}, "", nil, now, style{}, false))
}

// stopped is a rollout that does not go on.
func stopped(reason string) func(*v1alpha1.IngressDaemonSet, *metav1.Condition) {
	return func(_ *v1alpha1.IngressDaemonSet, c *metav1.Condition) {
		c.Reason, c.Status = reason, metav1.ConditionFalse
	}
}

func TestProgress(t *testing.T) {
	set := func(change func(*v1alpha1.IngressDaemonSet, *metav1.Condition)) *v1alpha1.IngressDaemonSet {
		s := midway()
		change(s, &s.Status.Conditions[1])
		return s
	}
	for name, test := range map[string]struct {
		set   *v1alpha1.IngressDaemonSet
		line  string
		done  bool
		fails bool
	}{
		"under way": {midway(), "1 of 4 nodes are updated, under way: node-2...", false, false},
		"not seen":  {set(func(s *v1alpha1.IngressDaemonSet, _ *metav1.Condition) { s.Generation = 3 }), "controller to see", false, false},
		"only the condition is not of it": {set(func(s *v1alpha1.IngressDaemonSet, c *metav1.Condition) {
			s.Generation, s.Status.ObservedGeneration, c.Reason = 3, 3, v1alpha1.ReasonComplete
		}), "controller to see", false, false},
		"complete": {set(func(_ *v1alpha1.IngressDaemonSet, c *metav1.Condition) { c.Reason = v1alpha1.ReasonComplete }), "successfully rolled out", true, false},
		"complete, and blocked": {set(func(s *v1alpha1.IngressDaemonSet, c *metav1.Condition) {
			c.Reason = v1alpha1.ReasonComplete
			b := &s.Status.Conditions[3]
			b.Status, b.Message = metav1.ConditionTrue, "another has the port"
		}), "successfully rolled out: 1 of 4 nodes serve the present template, blocked: another has the port", true, false},
		"paused":   {set(stopped(v1alpha1.ReasonPaused)), "paused", false, false},
		"halted":   {set(stopped(v1alpha1.ReasonDetachTimedOut)), "", true, true},
		"too slow": {set(stopped(v1alpha1.ReasonProgressDeadlineExceeded)), "", true, true},
		"stands for a reason that a newer controller knows": {set(stopped("MoonIsFull")), "", true, true},
		"rolling back": {set(func(_ *v1alpha1.IngressDaemonSet, c *metav1.Condition) { c.Reason = v1alpha1.ReasonRollingBack }), "Rolling back", false, false},
		"rolled back":  {set(stopped(v1alpha1.ReasonRolledBack)), "", true, true},
		"refused":      {set(stopped(v1alpha1.ReasonDeploymentRefused)), "", true, true},
		"analysing":    {set(func(_ *v1alpha1.IngressDaemonSet, c *metav1.Condition) { c.Reason = v1alpha1.ReasonAnalyzing }), "the last wave is analysed", false, false},
		"failed":       {set(stopped(v1alpha1.ReasonAnalysisFailed)), "", true, true},
		"blocked": {set(func(s *v1alpha1.IngressDaemonSet, _ *metav1.Condition) {
			b := &s.Status.Conditions[3]
			b.Status, b.Message = metav1.ConditionTrue, "no such class"
		}), "blocked: no such class", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			line, done, err := progress(test.set)
			if !strings.Contains(line, test.line) || done != test.done || (err != nil) != test.fails {
				t.Errorf("got %q, %t, %v", line, done, err)
			}
		})
	}
}

// TestPrintable: what a message holds steers no terminal, and breaks no line or column.
func TestPrintable(t *testing.T) {
	const colour = "\x1b[31mred\x1b[0m \x1b[39mplain"
	for text, want := range map[string]string{
		"":                        "",
		"磁盘已满 e\u0301 ✓":          "磁盘已满 e\u0301 ✓",
		colour:                    colour,
		"a\tb\nc\r\nd":            "a b c  d",
		"\x1b]0;title\a":          "�]0;title�",
		"\x1b[2J\x1b[1;1Hgone":    "�[2J�[1;1Hgone",
		"\x1b[8mhidden\x1b[31":    "�[8mhidden�[31",
		"\xff\xfe of no encoding": "�� of no encoding",
		"\u202eback\u009b2J":      "�back�2J",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestMessagesSteerNoTerminal, wherever they are shown: they come from whoever runs pods.
func TestMessagesSteerNoTerminal(t *testing.T) {
	const message = "exit code 1: \x1b[2J\xff\nall is well\t"
	set := midway()
	set.Status.Nodes[0].Reason, set.Status.Conditions[3].Message, set.Status.Conditions[3].Status = message, message, metav1.ConditionTrue
	set.Status.Rejected = &v1alpha1.RejectedRevision{Revision: "bbbbbbbbbb", Message: message}
	set.Status.Analysis = &v1alpha1.AnalysisStatus{Phase: v1alpha1.AnalysisMeasuring, Checks: []v1alpha1.AnalysisCheckStatus{{Name: "shop", Message: message}}}
	reasons := map[string][]string{"node-4": {"pod a: " + message}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
	for name, text := range map[string]string{
		"status": tree(set, "", reasons, now, style{}, false), "explain": explanation(set, node.Name, node, nil, nil, nil, now),
		"list": columns(fleetRows([]v1alpha1.IngressDaemonSet{*set}, true, true, now, style{}), ""), "top": topText([]v1alpha1.IngressDaemonSet{*set}, true, now, style{}),
	} {
		if !strings.Contains(text, "exit code 1: �[2J� all is well") || strings.ContainsAny(text, "\x1b\t") || !utf8.ValidString(text) || strings.Contains(text, "\nall") {
			t.Errorf("%s:\n%q", name, text)
		}
	}
}

// TestOddStatuses shows those that an older or newer controller, or nobody's, wrote.
func TestOddStatuses(t *testing.T) {
	set := midway()
	set.Status.UpdatedNodes, set.Status.Nodes[0].State = 9, "Levitating"
	text := tree(set, "", nil, now, style{terminal: true}, false)
	if !strings.Contains(text, strings.Repeat("█", 20)+"\x1b[0m 9 of 4") || !strings.Contains(text, "* node-2   \x1b[39mLevitating\x1b[0m ") {
		t.Error(text)
	}
}
