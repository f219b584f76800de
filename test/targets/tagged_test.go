package targets

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// TestDetachGroupsTagged takes a node out of the groups that have a tag, by a policy that
// permits nothing in others, and says that it is out though such another has it. No other test
// runs meanwhile: theirs need a controller that looks everywhere.
func TestDetachGroupsTagged(t *testing.T) {
	const node = "simulated-2"
	theController.kill()
	t.Cleanup(func() {
		theController.kill()
		if err := theController.start(); err != nil {
			t.Error(err)
		}
	})
	f := newFixtureAlone(t, "instance", func(g *cloud.TargetGroup) { g.Tags[managed] = "true" })
	f.must(theController.startAs("bytag", "--detach-groups-tagged="+managed+"=true"))
	other := *f
	other.group += "-other"
	f.must(admin.PutTargetGroup(t.Context(), cloud.TargetGroup{
		Name: other.group, Protocol: "TCP", Port: 80, TargetType: "instance", AssumeHealthy: true, Tags: map[string]string{managed: "false"},
	}))
	other.front("", 80)
	other.arn = f.arnOf(other.group)
	t.Cleanup(func() {
		f.must(admin.DeleteLoadBalancer(context.Background(), other.group))
		f.must(admin.DeleteTargetGroup(context.Background(), other.group))
	})
	for _, g := range []*fixture{f, &other} {
		g.register(instance("simulated-1"), instance(node))
	}
	f.healthy("i-simulated-1:80", "i-simulated-2:80")
	other.healthy("i-simulated-1:80", "i-simulated-2:80")
	before := other.moves()

	f.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	f.detached(node)
	f.holds("the other node", "i-simulated-1:80")
	a := &v1alpha1.Attachment{}
	f.must(api.Get(t.Context(), client.ObjectKey{Name: node}, a))
	if groups := a.Status.Groups; len(groups) != 1 || groups[0].ID != f.arn {
		t.Errorf("it is remembered to be out of %+v", groups)
	}
	f.annotate(node, v1alpha1.AnnotationNodeDetached, nil)
	f.attached(node)
	f.healthy("i-simulated-2:80")
	if n := other.moves() - before; n > 0 {
		t.Errorf("%d calls moved targets of a group without the tag", n)
	}
	other.holds("both nodes", "i-simulated-1:80", "i-simulated-2:80")
}
