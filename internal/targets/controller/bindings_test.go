package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func bindingObject(name string, spec map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "ns", "name": name}, "spec": spec}}
}

// TestBindingsOf reads who shares its group, and which group that is.
func TestBindingsOf(t *testing.T) {
	all := bindingsOf(&unstructured.UnstructuredList{Items: []unstructured.Unstructured{
		bindingObject("empty", nil),
		bindingObject("shared", map[string]any{"targetGroupARN": "arn:shared", "multiClusterTargetGroup": true}),
		bindingObject("by-arn", map[string]any{"targetGroupARN": "arn:web", "multiClusterTargetGroup": false}),
		bindingObject("by-name", map[string]any{"targetGroupName": "api"}),
		bindingObject("both", map[string]any{"targetGroupARN": "arn:both", "targetGroupName": "web"}),
	}})
	got := map[string]string{}
	for _, g := range []targets.Group{
		{ID: "arn:web", Name: "web"}, {ID: "arn:other", Name: "web"}, {ID: "arn:api", Name: "api"},
		{ID: "arn:shared", Name: "shared"}, {ID: "api", Name: "api", Balancer: targets.Classic}, {ID: "arn:both", Name: "both"},
	} {
		if b := bindingOf(g, all); b != nil {
			got[g.ID] = b.name
		}
	}
	if diff := cmp.Diff(map[string]string{"arn:web": "ns/by-arn", "arn:api": "ns/by-name", "arn:both": "ns/both"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestABoundGroupIsLeftAlone neither registers nor deregisters, keeps the record, and
// says what to change; a node is taken out of it all the same.
func TestABoundGroupIsLeftAlone(t *testing.T) {
	const refusal = "target group web belongs to TargetGroupBinding ns/web, whose controller removes what others register: set spec.multiClusterTargetGroup: true there, delete it, or use another group"
	record := []v1alpha1.AttachedGroup{{ID: "arn:web", Targets: []string{"i-b:80"}}}
	for name, bound := range map[string]*binding{"bound": {name: "ns/web"}, "not bound": nil} {
		c, h := nodeClaim(nil), holdOf(v1alpha1.WantDetached)
		h.object.Spec.Instance = "i-c"
		c.status.Groups = record
		s := shared(group(targets.Instance), healthy("i-b", "i-c", "i-d"))
		s.binding = bound
		s.join(c, nil, c.nodes)
		s.hold(h)
		s.decide(map[*hold]time.Time{h: asOf})
		s.keep()
		c.tell(now, []*share{s})
		ready, blocked := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionBlocked)
		out, in := []targets.Target{{ID: "i-b", Port: 80}, {ID: "i-c", Port: 80}}, 1
		if bound != nil {
			out, in = out[1:], 0
			if diff := cmp.Diff(record, c.status.Groups); diff != "" || c.status.GroupCount != 1 {
				t.Errorf("%s: %d groups, %s", name, c.status.GroupCount, diff)
			}
			for _, condition := range []string{ready.Reason, blocked.Reason} {
				if condition != v1alpha1.ReasonGroupBound {
					t.Errorf("%s: %+v, %+v", name, ready, blocked)
				}
			}
			if ready.Status != "False" || blocked.Status != "True" || ready.Message != refusal || blocked.Message != refusal {
				t.Errorf("%s: %+v, %+v", name, ready, blocked)
			}
		}
		if diff := cmp.Diff(out, s.decision.Deregister); diff != "" || len(s.decision.Register) != in {
			t.Errorf("%s: registers %v; %s", name, s.decision.Register, diff)
		}
	}
}

// lister answers a list with the error for the API group, or with one TargetGroupBinding.
type lister struct {
	client.Reader
	errs map[string]error
}

func (l *lister) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{bindingObject("web", map[string]any{"targetGroupARN": "arn:web"})}
	return l.errs[list.GetObjectKind().GroupVersionKind().Group]
}

// TestListingBindings tells a kind that is not there from a list that failed, and keeps
// what was listed before.
func TestListingBindings(t *testing.T) {
	forbidden, missing := errors.New("forbidden"), &meta.NoKindMatchError{GroupKind: bindingLists[0].GroupKind()}
	rung, l := make(chan struct{}), &lister{}
	b := newBindings(l, func() { rung <- struct{}{} })
	for _, c := range []struct {
		name     string
		aws, eks error
		listed   int
		read     bool
		failure  string
	}{
		{"it fails", forbidden, missing, 0, false, "listing the TargetGroupBindings: forbidden"},
		{"there is no such kind", missing, missing, 0, true, ""},
		{"only Auto Mode has it", missing, nil, 1, true, ""},
		{"there is one", nil, missing, 1, true, ""},
		{"of each kind", nil, nil, 2, true, ""},
		{"one kind fails", nil, forbidden, 2, true, "listing the TargetGroupBindings: forbidden"},
	} {
		l.errs = map[string]error{"elbv2.k8s.aws": c.aws, "eks.amazonaws.com": c.eks}
		b.renew(t.Context(), 0)
		<-rung
		all, read, failure := b.known()
		if len(all) != c.listed || read != c.read || failure != c.failure {
			t.Errorf("%s: %v %t %q", c.name, all, read, failure)
		}
	}
	b.renew(t.Context(), time.Hour)
	if b.underWay {
		t.Error("it is listed before it is due")
	}
}

// TestNothingIsDecidedBeforeBindingsAreKnown leaves every group alone that somebody
// else may have to itself.
func TestNothingIsDecidedBeforeBindingsAreKnown(t *testing.T) {
	g, rung := group(targets.Instance), make(chan struct{})
	a := &account{
		groups: &listing[targets.Group]{all: []targets.Group{g}, read: true, at: time.Now()}, inventory: map[string]inventory{g.ID: {asOf, healthy("i-b"), true}},
		calls: targets.NewCalls(4, 20), ring: func() {}, moved: make(chan struct{}),
	}
	r := &Reconciler{
		Options: Options{Floor: targets.DefaultFloor, GroupsEvery: time.Hour}, running: t.Context(), accounts: map[v1alpha1.AssumeRole]*account{{}: a},
		bindings: newBindings(&lister{errs: map[string]error{"elbv2.k8s.aws": errors.New("forbidden")}}, func() { rung <- struct{}{} }),
	}
	for i, why := range []string{"the TargetGroupBindings are being read", "listing the TargetGroupBindings: forbidden"} {
		c, h := nodeClaim(nil), holdOf(v1alpha1.WantDetached)
		if shares := r.decide(t.Context(), &observed{now: now, claims: []*claim{c}, holds: []*hold{h}}); len(shares) > 0 || c.unread != why || h.unread != why {
			t.Errorf("%v, %q, %q", shares, c.unread, h.unread)
		}
		if i == 0 {
			<-rung
		}
	}
	r.bindings = &listing[binding]{read: true, at: time.Now()}
	if shares := r.decide(t.Context(), &observed{now: now, claims: []*claim{nodeClaim(nil)}}); len(shares) != 1 {
		t.Errorf("%v", shares)
	}
}
