package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// What docs/guides/migrate-kube-ingress-aws-controller.md says, against an imitation of that controller.

// proxyPort is that of the group: its owner registers addresses without one.
const proxyPort = 8080

// owner does with a group what kube-ingress-aws-controller 0.18 does in AWSCNI mode with those of its stacks,
// ten times as often: it registers each pod that its selector finds and the group does not list, and deregisters
// all else that the group lists. What drains is listed. It does nothing before it has seen a pod.
type owner struct {
	*fixture
	label string
	stop  func()
}

// own starts one that selects pods by a label, until the test ends or stop is called.
func (f *fixture) own(label string) *owner {
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	o := &owner{fixture: f, label: label, stop: func() { cancel(); <-left }}
	go func() {
		defer close(left)
		seen := false
		every := time.NewTicker(500 * time.Millisecond)
		defer every.Stop()
		for ctx.Err() == nil {
			if err := o.look(ctx, &seen); err != nil && ctx.Err() == nil {
				f.Errorf("the owner of the group: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-every.C:
			}
		}
	}()
	f.Cleanup(o.stop)
	return o
}

func (o *owner) look(ctx context.Context, seen *bool) error {
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{o.label: o.group}); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Status.PodIP != "" && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil {
			wanted[p.Status.PodIP] = true
		}
	}
	if *seen = *seen || len(wanted) > 0; !*seen {
		return nil
	}
	out, err := o.terraform.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &o.arn})
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, t := range out.TargetHealthDescriptions {
		listed[*t.Target.Id] = true
	}
	if missing := without(wanted, listed); len(missing) > 0 {
		if _, err := o.terraform.RegisterTargets(ctx, &elb.RegisterTargetsInput{TargetGroupArn: &o.arn, Targets: missing}); err != nil {
			return err
		}
	}
	if more := without(listed, wanted); len(more) > 0 {
		_, err = o.terraform.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &o.arn, Targets: more})
	}
	return err
}

// without are those of a that are not in b, as targets.
func without(a, b map[string]bool) []types.TargetDescription {
	var out []types.TargetDescription
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if !b[id] {
			out = append(out, types.TargetDescription{Id: &id})
		}
	}
	return out
}

// labelled gives a pod of the test a label with the test's name.
func (f *fixture) labelled(labels ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for _, label := range labels {
			p.Labels[label] = f.group
		}
	}
}

func onGroupPort(g *cloud.TargetGroup) { g.Port = proxyPort }

// selecting has the pods with a label of the test registered.
func (f *fixture) selecting(name, label string) *v1alpha1.TargetGroupAttachment {
	f.Helper()
	a := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group + "-" + name}}
	a.Spec = v1alpha1.TargetGroupAttachmentSpec{
		TargetGroup: v1alpha1.TargetGroupSelector{ARN: f.arn}, TargetType: "ip", Port: intstr.FromInt32(proxyPort),
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: f.group}},
	}
	f.must(api.Create(f.Context(), a))
	return a
}

// deregistered are the addresses that were taken out of the group, by whoever did.
func (f *fixture) deregistered() map[string][]string {
	f.Helper()
	calls, err := f.admin.Calls(f.Context(), 0)
	f.must(err)
	out := map[string][]string{}
	for _, c := range calls {
		if c.Resource == f.arn && c.Action == "DeregisterTargets" {
			by := c.Principal[strings.LastIndex(c.Principal, "/")+1:]
			for _, t := range c.Targets {
				out[by] = append(out[by], t.ID)
			}
		}
	}
	return out
}

// TestOwnedGroup is the control: the owner of a group takes out a pod that it does not select, as often as a
// TargetGroupAttachment registers it.
func TestOwnedGroup(t *testing.T) {
	f := newFixture(t, "ip", onGroupPort)
	old, pod := f.pod("old", "simulated-1", f.labelled("theirs")), f.pod("new", "simulated-2", f.labelled("ours"))
	o := f.own("theirs")
	f.holds("the owner's pod", target(old))
	a := f.selecting("new", "ours")
	f.eventually("the owner to take it out twice", func(context.Context) error {
		out := f.deregistered()
		if taken := slices.DeleteFunc(out["terraform"], func(id string) bool { return id != pod.Status.PodIP }); len(taken) < 2 {
			return fmt.Errorf("%v", out)
		}
		return nil
	})
	o.stop()
	if out := f.deregistered(); len(out["controller"]) > 0 || slices.Contains(out["terraform"], old.Status.PodIP) {
		t.Errorf("taken out were %v", out)
	}
	f.holds("both pods, when the owner is gone", target(old), target(pod))
	f.removedAtOnce(a)
	f.removed(old)
	f.removed(pod)
}

func target(p *corev1.Pod) string { return fmt.Sprintf("%s:%d", p.Status.PodIP, proxyPort) }

// TestHandOver goes the page's way, there and back: the owner registers old and new pods, and is stopped; two
// TargetGroupAttachments take them over; the old pods end, and leave; the one of the new pods is forgotten while
// no controller runs, and the owner is started again. Nobody takes out a pod that lives. No other test runs
// meanwhile: theirs need a controller all the time.
func TestHandOver(t *testing.T) {
	f := newFixtureAlone(t, "ip", onGroupPort)
	// In the end the owner selects the pods that it has then.
	var old, fresh []*corev1.Pod
	for i, node := range []string{"simulated-1", "simulated-3"} {
		old = append(old, f.pod(fmt.Sprintf("old-%d", i), node, f.labelled("theirs", "old")))
		fresh = append(fresh, f.pod(fmt.Sprintf("new-%d", i), node, f.labelled("theirs", "new")))
	}
	first := f.own("theirs")
	f.holds("all pods", target(old[0]), target(old[1]), target(fresh[0]), target(fresh[1]))
	f.healthy(target(old[0]), target(old[1]), target(fresh[0]), target(fresh[1]))
	first.stop()

	moves := f.moves()
	leaving, staying := f.selecting("old", "old"), f.selecting("new", "new")
	f.ready(leaving, 2)
	f.ready(staying, 2)
	f.recorded(leaving, 2)
	f.recorded(staying, 2)
	if n := f.moves() - moves; n > 0 {
		t.Errorf("%d calls were made to take over what is registered", n)
	}
	for _, p := range old {
		f.must(api.Delete(t.Context(), p))
	}
	f.holds("the new pods", target(fresh[0]), target(fresh[1]))
	f.removedAtOnce(leaving)

	theController.kill()
	restart := sync.OnceValue(theController.start)
	t.Cleanup(func() { f.must(restart()) })
	f.must(api.Delete(t.Context(), staying))
	f.must(api.Get(t.Context(), client.ObjectKeyFromObject(staying), staying))
	patch := client.MergeFrom(staying.DeepCopy())
	staying.Finalizers = nil
	f.must(client.IgnoreNotFound(api.Patch(t.Context(), staying, patch)))
	last := f.own("theirs")
	f.must(restart())
	added := f.pod("added", "simulated-1", f.labelled("theirs"))
	f.holds("what the owner selects", target(fresh[0]), target(fresh[1]), target(added))
	f.must(api.Delete(t.Context(), added))
	f.holds("what the owner selects still", target(fresh[0]), target(fresh[1]))
	last.stop()

	out := f.deregistered()
	slices.Sort(out["controller"])
	gone := []string{old[0].Status.PodIP, old[1].Status.PodIP}
	slices.Sort(gone)
	if !slices.Equal(slices.Compact(out["controller"]), gone) || !slices.Equal(slices.Compact(out["terraform"]), []string{added.Status.PodIP}) {
		t.Errorf("pods were taken out that lived, or by others than the page says: %v; the old ones were %v, the one that came and went %s", out, gone, added.Status.PodIP)
	}
	f.removed(fresh[0])
	f.removed(fresh[1])
}

// recorded waits until a TargetGroupAttachment has so many targets on record.
func (f *fixture) recorded(a *v1alpha1.TargetGroupAttachment, targets int) {
	f.Helper()
	f.eventually("records", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(a), a)
		n := 0
		for _, g := range a.Status.Groups {
			n += len(g.Targets)
		}
		if n != targets || !meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) {
			return errors.Join(err, fmt.Errorf("%+v", a.Status))
		}
		return err
	})
}
