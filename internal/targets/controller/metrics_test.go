package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// reported is what the metrics tell under a name, by the values of labels in the order of the labels' names.
func reported(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			var values []string
			for _, l := range m.Label {
				values = append(values, l.GetValue())
			}
			if family.GetName() == name {
				out[strings.Join(values, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// TestTargetsAreCounted tells of each group that something is kept in how its targets are, and forgets it
// when nothing is.
func TestTargetsAreCounted(t *testing.T) {
	groupTargets.Reset()
	r := reconcilerOf(t, fakeapi.New(t))
	now := time.Now()
	group := func(id string, registered map[targets.Target]targets.Health) targets.KnownGroup {
		return targets.KnownGroup{Group: targets.Group{ID: "arn:" + id, Name: id}, ReadAt: now, Registered: registered}
	}
	health := func(c targets.Condition) targets.Health { return targets.Health{Condition: c} }
	web := group("web", map[targets.Target]targets.Health{
		{ID: "i-a", Port: 80}: health(targets.Healthy), {ID: "i-b", Port: 80}: health(targets.Healthy), {ID: "i-c", Port: 80}: health(targets.Draining),
	})
	other, strangers, unread := group("other", nil), group("strangers", nil), group("unread", nil)
	unread.ReadAt = time.Time{}
	role := v1alpha1.AssumeRole{ARN: "arn:role"}
	accounts := []targets.Account{
		{Groups: []targets.KnownGroup{web, strangers, unread}},
		// Another role that lists the same group is not the one by which it is reached.
		{Role: role, Groups: []targets.KnownGroup{other, group("web", nil)}},
	}
	plans := []targets.GroupPlan{{ID: "arn:web"}, {ID: "arn:unread"}, {Role: role, ID: "arn:other"}}
	r.countTargets(accounts, plans)
	want := map[string]float64{}
	for _, c := range healths {
		want["web "+string(c)+" arn:web"], want["other "+string(c)+" arn:other"] = 0, 0
	}
	want["web healthy arn:web"], want["web draining arn:web"] = 2, 1
	if diff := cmp.Diff(want, reported(t, "ingressdaemonset_group_targets")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r.countTargets(accounts, plans[2:])
	for of := range want {
		if strings.HasPrefix(of, "web ") {
			delete(want, of)
		}
	}
	if diff := cmp.Diff(want, reported(t, "ingressdaemonset_group_targets")); diff != "" {
		t.Errorf("when nothing is kept in one any more (-want +got)\n%s", diff)
	}
	r.countTargets(nil, nil)
	if left := reported(t, "ingressdaemonset_group_targets"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestListsAreCounted by role: where the cloud cannot be reached, nothing else tells of it, and one account that
// answers says nothing of another.
func TestListsAreCounted(t *testing.T) {
	r := reconcilerOf(t, fakeapi.New(t))
	r.Connect = func(*v1alpha1.AssumeRole, func(context.Context) error) (Cloud, error) {
		return nil, errors.New("no credentials")
	}
	r.Outcome = func(error) targets.Outcome { return targets.Throttled }
	const counted = "List Throttled arn:role"
	role := v1alpha1.AssumeRole{ARN: "arn:role"}
	r.Roles = []v1alpha1.AssumeRole{role}
	before := reported(t, "ingressdaemonset_cloud_calls_total")[counted]
	if _, err := r.newAccount(role).groups.list(t.Context()); err == nil {
		t.Fatal("groups are listed without credentials")
	}
	if got := reported(t, "ingressdaemonset_cloud_calls_total")[counted]; got != before+1 {
		t.Errorf("%v lists are counted, after %v", got, before)
	}
}

// TestConditionsAreCounted: each condition of a TargetGroupAttachment is told under its present reason alone, and
// of one that is gone nothing.
func TestConditionsAreCounted(t *testing.T) {
	attachmentConditions.Reset()
	r := reconcilerOf(t, fakeapi.New(t))
	decided := func(name string, conditions ...metav1.Condition) targets.AttachmentDecision {
		return targets.AttachmentDecision{Object: named(name), Status: v1alpha1.TargetGroupAttachmentStatus{Conditions: conditions}}
	}
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	fine := decided("fine", condition("Ready", "True", "TargetsHealthy"), condition("Stalled", "False", "AsExpected"))
	const ready, notStalled = "Ready fine ns TargetsHealthy", "Stalled fine ns AsExpected"
	for _, step := range []struct {
		name        string
		attachments []targets.AttachmentDecision
		want        map[string]float64
	}{
		{"one that is stalled", []targets.AttachmentDecision{
			fine, decided("web", condition("Ready", "False", "GroupBound"), condition("Stalled", "True", "GroupBound")),
		}, map[string]float64{ready: 1, notStalled: 0, "Ready web ns GroupBound": 0, "Stalled web ns GroupBound": 1}},
		{"for another reason", []targets.AttachmentDecision{
			fine, decided("web", condition("Ready", "False", "TargetsRefused"), condition("Stalled", "True", "TargetsRefused")),
		}, map[string]float64{ready: 1, notStalled: 0, "Ready web ns TargetsRefused": 0, "Stalled web ns TargetsRefused": 1}},
		{"gone", []targets.AttachmentDecision{fine}, map[string]float64{ready: 1, notStalled: 0}},
		{"none left", nil, map[string]float64{}},
	} {
		o := &observed{state: targets.State{Now: time.Now()}}
		r.report(t.Context(), o, targets.Decision{Attachments: step.attachments}, &applied{})
		if diff := cmp.Diff(step.want, reported(t, "ingressdaemonset_group_attachment_condition")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.name, diff)
		}
	}
}
