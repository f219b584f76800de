package detach

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// answered is a State of one node whose Attachment nobody answers in but this controller.
func answered(n Node, wanted v1alpha1.AttachmentWanted, status v1alpha1.AttachmentStatus) State {
	n.Attachment = &Attachment{Instance: n.Instance, Detach: wanted == v1alpha1.WantDetached, Remembered: true, Done: true}
	n.Attachment.Object = &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Generation: 2}, Spec: v1alpha1.AttachmentSpec{Wanted: wanted}, Status: status}
	return State{Now: now, Reasons: AllReasons, MinAttached: intstr.FromInt32(1), Answers: true, Nodes: []Node{n, node("y"), node("z")}}
}

// standing is the one of the three conditions that is True.
func standing(t *testing.T, status *v1alpha1.AttachmentStatus) string {
	t.Helper()
	var yes []string
	for _, kind := range kstatus.Conditions {
		if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.ObservedGeneration != 2 {
			t.Fatalf("%s is %+v", kind, c)
		} else if c.Status == metav1.ConditionTrue {
			yes = append(yes, kind+" "+c.Reason+": "+c.Message)
		}
	}
	return strings.Join(yes, ", ")
}

// TestAnswersWithoutACloud says in the status how far webhooks are, always that no cloud was asked, keeps
// what another controller has on record, and says each thing once.
func TestAnswersWithoutACloud(t *testing.T) {
	records := []v1alpha1.AttachedGroup{{ID: "arn:web", Leaving: []v1alpha1.LeavingTarget{{Target: "i-a:80"}}}}
	for name, c := range map[string]struct {
		node   Node
		wanted v1alpha1.AttachmentWanted
		done   bool
		want   string
	}{
		"not asked yet": {node("a", cordoned, hooked(Webhook{Name: "edge"})), v1alpha1.WantDetached, false, "Reconciling Detaching: webhook edge has not answered yet"},
		"it drains":     {node("a", cordoned, hooked(Webhook{Name: "edge", Undone: true, Waits: "3 are open"})), v1alpha1.WantDetached, false, "Reconciling Detaching: 3 are open"},
		"it is out":     {node("a", cordoned, hooked(Webhook{Name: "edge", Detached: true})), v1alpha1.WantDetached, true, "Ready Detached: no traffic reaches the node any more"},
		"it returns":    {node("a", hooked(Webhook{Name: "edge"})), v1alpha1.WantAttached, false, "Reconciling Attaching: webhook edge has not answered yet"},
	} {
		s := answered(c.node, c.wanted, v1alpha1.AttachmentStatus{ObservedGeneration: -1, Groups: records})
		object := s.Nodes[0].Attachment.Object
		before := object.DeepCopy()
		status := Plan(s).Nodes[0].Status
		if status == nil || status.Done != c.done || !status.WithoutCloud || status.ObservedGeneration != 2 || (status.Evidence != "") != c.done || !cmp.Equal(status.Groups, records) {
			t.Errorf("%s: %+v", name, status)
			continue
		}
		if got := standing(t, status); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if diff := cmp.Diff(before, object); diff != "" {
			t.Errorf("%s: what was read is written to: %s", name, diff)
		}
		object.Status, s.Now = *status, s.Now.Add(time.Hour)
		if again := Plan(s).Nodes[0].Status; again != nil {
			t.Errorf("%s: it is said again: %+v", name, again)
		}
		if object.Answered() {
			t.Errorf("%s: a controller with a cloud would take it for remembered", name)
		}
	}
}

func hooked(w Webhook) func(*Node) { return func(n *Node) { n.Webhooks = []Webhook{w} } }

// TestOthersAnswer leaves statuses alone that somebody else answers in, and those of Attachments that are
// about to ask for something else, or to go.
func TestOthersAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		node   Node
		wanted v1alpha1.AttachmentWanted
		change func(*State)
	}{
		"with a cloud": {node("a", cordoned), v1alpha1.WantDetached, func(s *State) { s.Answers = false }},
		"released":     {node("a"), v1alpha1.WantDetached, func(*State) {}},
		"back":         {node("a"), v1alpha1.WantAttached, func(*State) {}},
		"gone":         {node("a"), v1alpha1.WantDetached, func(s *State) { s.Nodes[0].Exists, s.Nodes[0].GoneSince = false, s.Now }},
	} {
		s := answered(c.node, c.wanted, v1alpha1.AttachmentStatus{})
		c.change(&s)
		if got := Plan(s).Nodes[0]; got.Name != "a" || got.Status != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
