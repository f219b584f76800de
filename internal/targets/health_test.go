package targets

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRecordedHealth keeps in testdata/health what the statuses of both kinds say in the situations that are
// told apart by who judges an object by its status. tools/health has them judge it.
func TestRecordedHealth(t *testing.T) {
	golden.Equal(t, *update, filepath.Join("testdata", "health", "targetgroupattachment.jsonl"), recordedGroups(t))
	golden.Equal(t, *update, filepath.Join("testdata", "health", "attachment.jsonl"), recordedNodes(t))
}

// recordedGroups are states of a TargetGroupAttachment, in the order of its life.
func recordedGroups(t *testing.T) string {
	var out strings.Builder
	add := func(at string, change func(*State, *v1alpha1.TargetGroupAttachment)) {
		s := fleetOf(webGroup(IP), at80("10.0.0.1"))
		a := s.attachment("web", onPods(IP), in80("10.0.0.1:80"))
		a.Object.Generation, a.Pods = 2, []*corev1.Pod{podOf("a", "10.0.0.1")}
		a.Object.Status.ObservedGeneration = -1
		change(&s, a.Object)
		status := plan(t, s).of("web").Status
		if at == "without a cloud" {
			status = Idle(a.Object, noon)
		}
		if at == "new" || at == "changed" {
			status = a.Object.Status
		}
		out.WriteString(recorded(t, at, "TargetGroupAttachment", a.Object.ObjectMeta, status))
	}
	add("new", func(*State, *v1alpha1.TargetGroupAttachment) {})
	add("groups are being read", func(s *State, _ *v1alpha1.TargetGroupAttachment) { s.Accounts = nil })
	add("no group matches", func(s *State, _ *v1alpha1.TargetGroupAttachment) { s.Accounts[0].Groups = nil })
	add("a target is being registered", func(s *State, _ *v1alpha1.TargetGroupAttachment) { s.group().Registered = map[Target]Health{} })
	add("all targets are healthy", func(*State, *v1alpha1.TargetGroupAttachment) {})
	add("changed", func(s *State, o *v1alpha1.TargetGroupAttachment) {
		o.Status = plan(t, *s).of("web").Status
		o.Generation = 3
	})
	add("the group is somebody else's", func(s *State, _ *v1alpha1.TargetGroupAttachment) {
		s.Bindings.All = []Binding{{Name: "ns/web", ARN: "arn:web"}}
	})
	add("calls fail", func(s *State, _ *v1alpha1.TargetGroupAttachment) { s.group().Failing = "not authorized" })
	add("without a cloud", func(*State, *v1alpha1.TargetGroupAttachment) {})
	add("deleted", func(s *State, o *v1alpha1.TargetGroupAttachment) {
		o.Status = plan(t, *s).of("web").Status
		o.DeletionTimestamp = &metav1.Time{Time: noon}
	})
	return out.String()
}

// recordedNodes are states of an Attachment, in the order of its life.
func recordedNodes(t *testing.T) string {
	var out strings.Builder
	add := func(at string, wanted v1alpha1.AttachmentWanted, change func(*State, *v1alpha1.Attachment)) {
		s := fleetOf(webGroup(Instance), at80("i-b"))
		a := s.detachment("node-a", "i-a", wanted)
		a.Status.ObservedGeneration = -1
		change(&s, a)
		status := plan(t, s).node("node-a")
		if at == "new" {
			status = a.Status
		}
		out.WriteString(recorded(t, at, "Attachment", a.ObjectMeta, status))
	}
	add("new", v1alpha1.WantDetached, func(*State, *v1alpha1.Attachment) {})
	add("groups are being read", v1alpha1.WantDetached, func(s *State, _ *v1alpha1.Attachment) { s.Accounts[0].ListedAt = time.Time{} })
	add("a target leaves", v1alpha1.WantDetached, func(s *State, _ *v1alpha1.Attachment) { s.group().Registered = at80("i-a", "i-b") })
	add("it is out", v1alpha1.WantDetached, func(*State, *v1alpha1.Attachment) {})
	add("answered without a cloud", v1alpha1.WantDetached, func(s *State, a *v1alpha1.Attachment) {
		a.Status.ObservedGeneration, a.Status.Done, a.Status.WithoutCloud = a.Generation, true, true
		s.Accounts[0].ListedAt, s.Memory = time.Time{}, Memory{Nodes: map[types.UID]NodeMemory{}}
	})
	add("a target returns", v1alpha1.WantAttached, func(_ *State, a *v1alpha1.Attachment) {
		a.Status.Groups = []v1alpha1.AttachedGroup{leaving80(noon.Add(-time.Hour), "i-a:80")}
	})
	add("it is back", v1alpha1.WantAttached, func(*State, *v1alpha1.Attachment) {})
	return out.String()
}

// recorded is a state as JSON, in a line.
func recorded(t *testing.T, at, kind string, meta metav1.ObjectMeta, status any) string {
	t.Helper()
	metadata := map[string]any{"name": meta.Name, "generation": meta.Generation}
	if meta.DeletionTimestamp != nil {
		metadata["deletionTimestamp"] = meta.DeletionTimestamp
	}
	line, err := json.Marshal(map[string]any{"at": at, "object": map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": metadata, "status": status,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}
