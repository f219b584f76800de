package controller

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestKubectlWaits has kubectl itself wait for Ready: from before the controller has seen the spec until
// every node serves with the present template.
func TestKubectlWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy")
	for _, v := range []string{"v1", "v2", "v3"} {
		f.change(set, version(v))
		f.kubectl("wait", "ids/proxy", "--for=condition=Ready", "--timeout=2m")
		if f.read(set); !isComplete(set) {
			t.Errorf("with %s kubectl waited until %+v", v, set.Status)
		}
	}
	f.change(set, version("v4"), func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true })
	paused := f.waitReason(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonPaused)
	if paused.Status != metav1.ConditionTrue || meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("paused before its nodes are updated: %+v", set.Status.Conditions)
	}
	f.change(set, version("v3"))
	f.kubectl("wait", "ids/proxy", "--for=condition=Ready", "--timeout=2m")
}

// TestNobodyKeepsTargets says of a TargetGroupAttachment that nobody keeps it, since this controller has no
// cloud, and lets it go.
func TestNobodyKeepsTargets(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	web := &v1alpha1.TargetGroupAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "web"},
		Spec: v1alpha1.TargetGroupAttachmentSpec{
			TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "ip", Port: intstr.FromInt32(80), PodSelector: &metav1.LabelSelector{},
		},
	}
	f.must(api.Create(t.Context(), web))
	f.kubectl("wait", "tga/web", "--for=condition=Stalled", "--timeout=2m")
	f.read(web)
	stalled, ready := meta.FindStatusCondition(web.Status.Conditions, v1alpha1.ConditionStalled), meta.FindStatusCondition(web.Status.Conditions, v1alpha1.ConditionReady)
	if stalled.Reason != v1alpha1.ReasonNoCloud || !strings.Contains(stalled.Message, "--cloud") || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonNoCloud {
		t.Errorf("%+v, %+v", stalled, ready)
	}
	f.must(api.Delete(t.Context(), web))
	f.eventually("it is gone", func() error {
		err := api.Get(t.Context(), client.ObjectKeyFromObject(web), web)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it is there"))
	})
}
