package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// TestZonalShift shifts traffic away from the zone of one of two targets. That one counts for
// nothing where the other would go, which is the last that serves; it goes itself, and is back
// when it is healthy, though the shift goes on: nobody knows when it ends.
func TestZonalShift(t *testing.T) {
	const node = "simulated-11"
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[cutOnUnhealthy] = "false" })
	f.must(admin.PutLoadBalancer(t.Context(), cloud.LoadBalancer{
		Name: f.group, Type: "network", Zones: []cloud.Zone{{Name: zone}, {Name: farZone}},
		Listeners:  []cloud.Listener{{Protocol: "TCP", Port: 80, TargetGroup: f.group}},
		Attributes: map[string]string{crossZone: "true", "zonal_shift.config.enabled": "true"},
	}))
	f.register(instance(node), instance(far))
	f.healthy(instance(node)+":80", instance(far)+":80")
	f.must(admin.ShiftZone(t.Context(), f.group, zone))
	f.shifted(node)

	f.annotate(far, v1alpha1.AnnotationNodeDetached, new(""))
	f.eventually("held", func(ctx context.Context) error {
		states, err := f.states(ctx)
		if err == nil && states[instance(far)+":80"] != "healthy" {
			t.Fatalf("the last target that gets traffic is taken out: %v", states)
		}
		a := &v1alpha1.Attachment{}
		if err := errors.Join(err, api.Get(ctx, client.ObjectKey{Name: far}, a)); err != nil {
			return err
		}
		if !strings.Contains(a.Status.Waits, "last healthy target of the group") {
			return errors.New(a.Status.Waits)
		}
		return nil
	})
	f.annotate(far, v1alpha1.AnnotationNodeDetached, nil)
	f.attached(far)

	f.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	f.detached(node)
	f.holds("the target that gets traffic", instance(far)+":80")
	f.annotate(node, v1alpha1.AnnotationNodeDetached, nil)
	f.attached(node)
	f.healthy(instance(node) + ":80")
	f.shifted(node)

	// The shift ends, and it counts again.
	f.must(admin.ShiftZone(t.Context(), f.group, ""))
	f.annotate(far, v1alpha1.AnnotationNodeDetached, new(""))
	f.detached(far)
	f.annotate(far, v1alpha1.AnnotationNodeDetached, nil)
	f.attached(far)
}

// shifted is that a zonal shift keeps traffic from a node's target, which is healthy.
func (f *fixture) shifted(node string) {
	f.Helper()
	id := instance(node)
	out, err := f.terraform.DescribeTargetHealth(f.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: &f.arn, Targets: []types.TargetDescription{{Id: &id}}})
	f.must(err)
	is := out.TargetHealthDescriptions[0]
	if is.TargetHealth.State != types.TargetHealthStateEnumHealthy || is.AdministrativeOverride == nil || is.AdministrativeOverride.State != types.TargetAdministrativeOverrideStateEnumZonalShiftActive {
		f.Fatalf("%s is %s, with %+v", id, is.TargetHealth.State, is.AdministrativeOverride)
	}
}

// detached waits until a node is said to be out of its load balancers.
func (f *fixture) detached(node string) {
	f.Helper()
	f.eventually("the timestamp of "+node, func(ctx context.Context) error {
		if f.node(node).Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" {
			return nil
		}
		a := &v1alpha1.Attachment{}
		err := api.Get(ctx, client.ObjectKey{Name: node}, a)
		return errors.Join(fmt.Errorf("%+v", a.Status), err)
	})
}

// attached waits until nothing is left of a node's detachment.
func (f *fixture) attached(node string) {
	f.Helper()
	f.eventually("the return of "+node, func(ctx context.Context) error {
		a := &v1alpha1.Attachment{}
		if err := notFound(api.Get(ctx, client.ObjectKey{Name: node}, a)); err != nil {
			return errors.Join(fmt.Errorf("%+v", a.Status), err)
		}
		if now := f.node(node).Annotations; now[v1alpha1.AnnotationNodeDetaching] != "false" || now[v1alpha1.AnnotationDetachmentTimestamp] != "" {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
}
