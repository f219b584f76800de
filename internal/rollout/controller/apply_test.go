package controller

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestDryRunIsFollowedUp looks again after the API server has been asked: in a fleet
// in which nothing moves no event calls for it, as after another controller took over.
func TestDryRunIsFollowedUp(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.look(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.apply(t.Context(), o, []rollout.Step{{Action: rollout.DryRunDeployment}}); err != nil {
		t.Fatal(err)
	}
	if o.lookAt.IsZero() || !o.session.dryRun.of(o.state.Revision).Done {
		t.Error("nobody would look at the answer")
	}
}

// TestRejectedPodsAreCleanedUp even where the Deployment cannot be written, and its
// ReplicaSet makes more.
func TestRejectedPodsAreCleanedUp(t *testing.T) {
	set := benchSet()
	r, _, err := newReconciler(set)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.look(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "rejected"}}
	if err := r.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	o.nodes["node-1"] = &nodeObjects{deployment: benchDeployment(set, "node-1"), pods: []*corev1.Pod{pod}}
	done, err := r.apply(t.Context(), o, []rollout.Step{
		{Action: rollout.HoldBack, Node: "node-1", Keep: true, Hold: &v1alpha1.Hold{}},
		{Action: rollout.DeletePods, Node: "node-1", Pods: []string{pod.Name}},
	})
	if err == nil || len(done) != 1 || done[0].Action != rollout.DeletePods {
		t.Errorf("carried out: %v, error %v", done, err)
	}
	if err := r.live.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the rejected pod: %v", err)
	}
}

// TestTemplateThatIsRefused, be it when it is put on record or when it is rolled out after it was
// accepted in a dry run, is known for refused from then on; nothing of it is rolled out that is not
// on record, and what else there is to do is done.
func TestTemplateThatIsRefused(t *testing.T) {
	refusing := func(kind client.Object, err error) interceptor.Funcs {
		return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if reflect.TypeOf(obj) == reflect.TypeOf(kind) {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		}}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "one", errors.New("too many"))
	for name, c := range map[string]struct {
		api     interceptor.Funcs
		refused bool
		created bool
	}{
		"on record":               {refusing(&appsv1.ControllerRevision{}, forbidden), true, false},
		"on record, unreachable":  {refusing(&appsv1.ControllerRevision{}, errors.New("down")), false, false},
		"rolled out":              {refusing(&appsv1.Deployment{}, forbidden), true, false},
		"rolled out, unreachable": {refusing(&appsv1.Deployment{}, errors.New("down")), false, false},
		"neither":                 {interceptor.Funcs{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			set := benchSet()
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			o, err := r.look(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			o.session.dryRun.set(o.state.Revision, nil)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "rejected"}}
			if err := r.client.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			o.nodes["node-1"], o.nodes["node-2"] = &nodeObjects{node: benchNode(1)}, &nodeObjects{pods: []*corev1.Pod{pod}}
			r.client = interceptor.NewClient(r.client.(client.WithWatch), c.api)
			done, _ := r.apply(t.Context(), o, []rollout.Step{
				{Action: rollout.RecordRevision, Revision: o.state.Revision},
				{Action: rollout.Create, Node: "node-1", Revision: o.state.Revision, Replicas: 1},
				{Action: rollout.DeletePods, Node: "node-2", Pods: []string{pod.Name}},
			})
			did := func(action rollout.Action) bool {
				return slices.ContainsFunc(done, func(s rollout.Step) bool { return s.Action == action })
			}
			if did(rollout.Create) != c.created || !did(rollout.DeletePods) {
				t.Errorf("carried out: %v", done)
			}
			if dryRun := o.session.dryRun.of(o.state.Revision); !dryRun.Done || (dryRun.Refusal != "") != c.refused {
				t.Errorf("%+v", dryRun)
			}
		})
	}
}

// TestFinalizerOfWhatIsGone: an IngressDaemonSet that is gone by then needs no finalizer, and any
// other refusal is told.
func TestFinalizerOfWhatIsGone(t *testing.T) {
	refusal := errors.New("refused")
	for name, c := range map[string]struct{ answer, want error }{
		"gone":    {apierrors.NewNotFound(schema.GroupResource{}, "web"), nil},
		"refused": {refusal, refusal},
	} {
		t.Run(name, func(t *testing.T) {
			set := benchSet()
			r, _, err := newReconciler(set)
			if err != nil {
				t.Fatal(err)
			}
			r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return c.answer
				},
			})
			if err := r.addFinalizer(t.Context(), set); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
