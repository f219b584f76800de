package targets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	awsapi "github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// blocked waits until a condition Blocked says something.
func (f *fixture) blocked(a *v1alpha1.TargetGroupAttachment, says string) {
	f.Helper()
	f.eventually("Blocked", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionBlocked); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, says) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

func (f *fixture) onPods() v1alpha1.TargetGroupAttachmentSpec {
	return v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "ip", Port: intstr.FromString("http"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.group}},
	}
}

// TestQUIC leaves a group alone whose targets have server ids, and says why.
func TestQUIC(t *testing.T) {
	f := newFixture(t, "ip")
	g := cloud.TargetGroup{Name: f.group + "-quic", Protocol: "TCP_QUIC", Port: 443, TargetType: "ip", AssumeHealthy: true, Tags: map[string]string{"team": f.group}}
	f.must(admin.PutTargetGroup(t.Context(), g))
	t.Cleanup(func() { f.must(admin.DeleteTargetGroup(context.Background(), g.Name)) })
	pod := f.pod("one", "simulated-1")
	a := f.attach(f.onPods())
	f.holds("the pod, in the other group of those tags", pod.Status.PodIP+":8080")
	f.blocked(a, "target group "+g.Name+" is left alone: its protocol is TCP_QUIC")
	quic := *f
	quic.arn = f.arnOf(g.Name)
	if n := quic.moves(); n > 0 {
		t.Errorf("%d calls were made", n)
	}
	if a.Status.Access == nil || a.Status.Access.Mode != "ip" || a.Status.Access.HostNetwork || a.Status.Access.HostPort {
		t.Errorf("access is %+v", a.Status.Access)
	}
	f.removedAtOnce(a)
	f.removed(pod)
}

// TestQUICNode says that a node is out, and names such a group that has it: nobody could put it
// back there.
func TestQUICNode(t *testing.T) {
	const node = "simulated-12"
	f := newFixture(t, "instance")
	g := cloud.TargetGroup{Name: f.group + "-quic", Protocol: "TCP_QUIC", Port: 443, TargetType: "instance", AssumeHealthy: true}
	f.must(admin.PutTargetGroup(t.Context(), g))
	t.Cleanup(func() { f.must(admin.DeleteTargetGroup(context.Background(), g.Name)) })
	quic := *f
	quic.arn = f.arnOf(g.Name)
	_, err := f.terraform.RegisterTargets(t.Context(), &elb.RegisterTargetsInput{
		TargetGroupArn: &quic.arn, Targets: []types.TargetDescription{{Id: new(instance(node)), QuicServerId: new("0x0123456789abcdef")}},
	})
	f.must(err)
	before := quic.moves()
	f.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	f.eventually("its name", func(ctx context.Context) error {
		a := &v1alpha1.Attachment{}
		err := api.Get(ctx, client.ObjectKey{Name: node}, a)
		if !slices.Equal(a.Status.Foreign, []string{instance(node) + " in " + g.Name}) {
			err = errors.Join(err, fmt.Errorf("%+v", a.Status))
		}
		return err
	})
	f.detached(node)
	f.annotate(node, v1alpha1.AnnotationNodeDetached, nil)
	f.attached(node)
	if n := quic.moves() - before; n > 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestAnotherRegion refuses a group of another region, whose ARN says so.
func TestAnotherRegion(t *testing.T) {
	f := newFixture(t, "ip")
	spec := f.onPods()
	spec.TargetGroup.ARN = strings.Replace(f.arn, region, "us-east-1", 1)
	a := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group}, Spec: spec}
	f.must(api.Create(t.Context(), a))
	f.blocked(a, "is in region us-east-1, and this controller looks after "+region)
	f.removed(a)
}

// TestRefusedDeregistration lets go of a target whose deregistration is refused, for it is not
// there any more.
func TestRefusedDeregistration(t *testing.T) {
	f := newFixture(t, "ip")
	pod := f.pod("one", "simulated-3")
	other := f.pod("two", "simulated-4")
	a := f.attach(f.onPods())
	f.ready(a, 2)
	fault := awsapi.Fault{Kind: awsapi.Refuse, Code: "InvalidTarget", Action: "DeregisterTargets", Target: pod.Status.PodIP}
	f.must(admin.SetFaults(t.Context(), fault))
	t.Cleanup(func() { f.must(admin.SetFaults(context.Background())) })
	f.must(api.Delete(t.Context(), pod))
	f.eventually("a refusal", func(ctx context.Context) error {
		calls, err := admin.Calls(ctx, 0)
		for _, c := range calls {
			if c.Resource == f.arn && c.Action == "DeregisterTargets" && c.Outcome == "InvalidTarget" {
				return nil
			}
		}
		return errors.Join(err, errors.New("none yet"))
	})
	// From now on only what is not registered is refused.
	fault.Kind, fault.Code = awsapi.RefuseUnregistered, ""
	f.must(admin.SetFaults(t.Context(), fault))
	address, port := pod.Status.PodIP, int32(8080)
	_, err := f.terraform.DeregisterTargets(t.Context(), &elb.DeregisterTargetsInput{TargetGroupArn: &f.arn, Targets: []types.TargetDescription{{Id: &address, Port: &port}}})
	f.must(err)
	f.eventually("nothing of it is left", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if len(a.Status.Groups) != 1 || len(a.Status.Groups[0].Leaving) > 0 {
			return fmt.Errorf("%+v", a.Status.Groups)
		}
		return nil
	})
	f.removed(a)
	f.removed(other)
}
