package targets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
)

// TestGoingNode cordons a node: when it is out of its load balancers, its pods are
// stopped in the order of their priorities, with regard to disruption budgets.
func TestGoingNode(t *testing.T) {
	const node = "simulated-4"
	f := newFixture(t, "instance")
	f.register(instance("simulated-1"), instance(node))
	f.healthy("i-simulated-1:80", "i-simulated-4:80")
	first, second, other := f.pod("first", node), f.pod("second", node), f.pod("other", node)
	f.prioritize(first, "10")
	f.prioritize(second, "-1")
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"first": f.group}},
		},
	}
	f.must(api.Create(t.Context(), budget))

	f.cordon(node, true)
	f.eventually("the taint", func(context.Context) error {
		n := f.node(node)
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDetaching })
		evidence := n.Annotations[v1alpha1.AnnotationDetachmentEvidence]
		if !tainted || n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" || !strings.Contains(evidence, "webhook edge") || !strings.Contains(evidence, "FloorPassed") {
			return fmt.Errorf("%v %v", n.Spec.Taints, n.Annotations)
		}
		return nil
	})
	// A controller that was killed meanwhile asks once more.
	if ids := theWebhook.ids(webhook.Detach, node); len(ids) < 2 || len(slices.Compact(ids)) != 1 {
		t.Errorf("the webhook was asked %v, want the same twice or more", ids)
	}
	f.eventually("an eviction that the budget refuses", func(context.Context) error {
		events, err := audit.Read(theCluster.AuditLog(), audit.Account(account))
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.ObjectRef.Subresource == "eviction" && e.ObjectRef.Name == first.Name && e.Response.Code == http.StatusTooManyRequests {
				return nil
			}
		}
		return errors.New("none")
	})
	for _, pod := range []*corev1.Pod{first, second, other} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp != nil {
			t.Errorf("%s was stopped against the budget, or before its turn: %v", pod.Name, err)
		}
	}
	f.must(api.Delete(t.Context(), budget))
	for _, pod := range []*corev1.Pod{first, second} {
		f.eventually("gone: "+pod.Name, func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
	}
	f.must(api.Get(t.Context(), client.ObjectKeyFromObject(other), other))

	f.cordon(node, false)
	f.healthy("i-simulated-1:80", "i-simulated-4:80")
	f.eventually("no mark", func(context.Context) error {
		n := f.node(node)
		if len(n.Spec.Taints) > 0 || n.Annotations[v1alpha1.AnnotationNodeDetaching] != "false" {
			return fmt.Errorf("%v %v", n.Spec.Taints, n.Annotations)
		}
		return nil
	})
	ids := append(theWebhook.ids(webhook.Detach, node), theWebhook.ids(webhook.Attach, node)...)
	if len(ids) < 4 || len(slices.Compact(ids)) != 1 || len(theWebhook.refusals()) > 0 {
		t.Errorf("the webhook was asked %v, and refused %v", ids, theWebhook.refusals())
	}
	f.must(api.Delete(t.Context(), other))
}

func (f *fixture) prioritize(pod *corev1.Pod, priority string) {
	f.Helper()
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Annotations = map[string]string{v1alpha1.AnnotationDeletionPriority: priority}
	pod.Labels[strings.TrimPrefix(pod.Name, f.group+"-")] = f.group
	f.must(api.Patch(f.Context(), pod, patch))
}

func (f *fixture) cordon(node string, cordoned bool) {
	f.Helper()
	n := f.node(node)
	patch := client.MergeFrom(n.DeepCopy())
	n.Spec.Unschedulable = cordoned
	f.must(api.Patch(f.Context(), n, patch))
}
