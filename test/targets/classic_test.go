package targets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	classic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kubectl"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// old is a classic load balancer that has no sockets.
type old struct {
	*fixture
	client *classic.Client
}

func newClassic(t *testing.T, instances ...string) *old {
	o := &old{&fixture{T: t, group: "old"}, classic.New(classic.Options{
		Region: region, BaseEndpoint: sdk.String("http://" + theCloud.API),
		Credentials: credentials.NewStaticCredentialsProvider("AKIATERRAFORM", "terraform-secret", ""),
	})}
	o.must(admin.PutClassicLoadBalancer(t.Context(), cloud.ClassicLoadBalancer{
		Name: o.group, Zones: []cloud.Zone{{Name: zone}}, CrossZone: true, AssumeHealthy: true, Draining: true, Timeout: 20,
		Listeners: []cloud.ClassicListener{{Protocol: "TCP", Port: 80, InstancePort: 30080}, {Protocol: "TCP", Port: 443, InstancePort: 30443}},
		Check:     cloud.ClassicCheck{Target: "TCP:30080"},
	}))
	t.Cleanup(func() { o.must(admin.DeleteLoadBalancer(context.Background(), o.group)) })
	var list []types.Instance
	for _, id := range instances {
		list = append(list, types.Instance{InstanceId: &id})
	}
	_, err := o.client.RegisterInstancesWithLoadBalancer(t.Context(), &classic.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &o.group, Instances: list})
	o.must(err)
	o.serves(instances...)
	return o
}

// serves waits until just these instances are in service.
func (o *old) serves(want ...string) {
	o.Helper()
	o.eventually("instances in service", func(ctx context.Context) error {
		found, err := o.client.DescribeInstanceHealth(ctx, &classic.DescribeInstanceHealthInput{LoadBalancerName: &o.group})
		if err != nil {
			return err
		}
		var got []string
		for _, i := range found.InstanceStates {
			if *i.State == "InService" && !strings.Contains(*i.Description, "deregistration") {
				got = append(got, *i.InstanceId)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
}

// ids runs kubectl ids and gives what it printed.
func (o *old) ids(args ...string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := kubectl.NewCommand(streams, "v0")
	c.SetArgs(append(args, "--kubeconfig", theCluster.Kubeconfig()))
	err := c.ExecuteContext(o.Context())
	return out.String(), err
}

// says fails the test unless the command succeeds, or fails with an error, and prints all of that.
func (o *old) says(fails string, wanted []string, args ...string) {
	o.Helper()
	out, err := o.ids(args...)
	if (err != nil) != (fails != "") || err != nil && !strings.Contains(err.Error(), fails) {
		o.Errorf("kubectl ids %s: %v, want %q; it printed:\n%s", strings.Join(args, " "), err, fails, out)
	}
	for _, w := range wanted {
		if !strings.Contains(out, w) {
			o.Errorf("kubectl ids %s: no %q in:\n%s", strings.Join(args, " "), w, out)
		}
	}
}

// TestClassicLoadBalancer detaches a node from a classic load balancer and puts it back
// by hand, before an uninstall: it runs before all tests that detach other nodes.
func TestClassicLoadBalancer(t *testing.T) {
	const node = "simulated-6"
	o := newClassic(t, "i-simulated-1", "i-simulated-6")
	byHand := []string{
		"aws elb register-instances-with-load-balancer --load-balancer-name old --instances i-simulated-6\n",
		"kubectl label node simulated-6 node.kubernetes.io/exclude-from-external-load-balancers-\n",
	}
	o.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	o.serves("i-simulated-1")
	o.eventually("the timestamp", func(context.Context) error {
		n := o.node(node)
		if n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" || !strings.Contains(n.Annotations[v1alpha1.AnnotationDetachmentEvidence], "FloorPassed") {
			return fmt.Errorf("%v", n.Annotations)
		}
		return nil
	})
	o.says("", byHand, "attach", node, "--print-aws")
	o.cordon(node, true)
	o.says("kubectl uncordon simulated-6", nil, "attach", "--all")
	if _, asked := o.node(node).Annotations[v1alpha1.AnnotationNodeDetached]; !asked {
		t.Error("what was refused was begun")
	}
	o.cordon(node, false)

	theController.kill()
	o.says("nothing was put back for 2s", byHand, "attach", node, "--stalled-after=2s")
	o.must(theController.start())
	o.says("", []string{"node/simulated-6 attached"}, "attach", "--all", "--timeout=2m")
	o.serves("i-simulated-1", "i-simulated-6")
	n := o.node(node)
	if n.Annotations[v1alpha1.AnnotationNodeDetaching] != "false" || n.Labels[v1alpha1.LabelExclude] != "" || len(n.Spec.Taints) > 0 {
		t.Error("marks are left:", n.Annotations, n.Labels, n.Spec.Taints)
	}
	o.says("", []string{"No node is out"}, "attach", "--all")
	o.says("it is not out of its load balancers", nil, "attach", node)
}
