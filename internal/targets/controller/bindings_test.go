package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	got := bindingsOf(&unstructured.UnstructuredList{Items: []unstructured.Unstructured{
		bindingObject("empty", nil),
		bindingObject("shared", map[string]any{"targetGroupARN": "arn:shared", "multiClusterTargetGroup": true}),
		bindingObject("by-arn", map[string]any{"targetGroupARN": "arn:web", "multiClusterTargetGroup": false}),
		bindingObject("by-name", map[string]any{"targetGroupName": "api"}),
		bindingObject("both", map[string]any{"targetGroupARN": "arn:both", "targetGroupName": "web"}),
	}})
	want := []targets.Binding{{Name: "ns/empty"}, {Name: "ns/by-arn", ARN: "arn:web"}, {Name: "ns/by-name", Group: "api"}, {Name: "ns/both", ARN: "arn:both", Group: "web"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
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
	triggered, l := make(chan struct{}), &lister{}
	b := newBindings(l, func() { triggered <- struct{}{} })
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
		b.at = time.Time{}
		b.renew(t.Context(), 0)
		<-triggered
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
