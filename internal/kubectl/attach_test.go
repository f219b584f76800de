package kubectl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	corev1 "k8s.io/api/core/v1"
)

const webARN = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/73e2d6bc24d8a067"

// out is a node that is out of a target group and a classic load balancer.
func out(changes ...func(*outNode)) *outNode {
	n := &outNode{name: "node-1", node: &corev1.Node{}, attachment: &v1alpha1.Attachment{
		Spec: v1alpha1.AttachmentSpec{Instance: "i-1", Wanted: v1alpha1.WantDetached},
		Status: v1alpha1.AttachmentStatus{ObservedGeneration: 2, Groups: []v1alpha1.AttachedGroup{
			{ID: webARN, Balancer: "network", Targets: []string{"i-1:80"}, Leaving: []v1alpha1.LeavingTarget{{Target: "i-1:443"}}},
			{ID: "old", Balancer: "classic", Leaving: []v1alpha1.LeavingTarget{{Target: "i-1:80"}}},
		}},
	}}
	n.node.Name, n.attachment.Name, n.attachment.Generation = "node-1", "node-1", 2
	n.node.Annotations = map[string]string{v1alpha1.AnnotationNodeDetached: ""}
	n.node.Labels = map[string]string{v1alpha1.LabelExclude: v1alpha1.ExcludedByUs, corev1.LabelTopologyRegion: "eu-north-1"}
	for _, change := range changes {
		change(n)
	}
	return n
}

func TestMayReturn(t *testing.T) {
	taint := func(key string) func(*outNode) {
		return func(n *outNode) { n.node.Spec.Taints = append(n.node.Spec.Taints, corev1.Taint{Key: key}) }
	}
	cordon := func(n *outNode) { n.node.Spec.Unschedulable = true }
	forgotten := func(n *outNode) { n.attachment = nil }
	for name, c := range map[string]struct {
		node *outNode
		want string
	}{
		"annotated":         {out(), ""},
		"with our taint":    {out(taint(v1alpha1.TaintDetaching)), ""},
		"cordoned":          {out(cordon), `node "node-1" would be taken out again: it is cordoned. Run kubectl uncordon node-1 first`},
		"autoscaler":        {out(taint("ToBeDeletedByClusterAutoscaler")), "remove the taint ToBeDeletedByClusterAutoscaler"},
		"Karpenter":         {out(taint("karpenter.sh/disrupted")), "remove the taint karpenter.sh/disrupted"},
		"interrupted":       {out(taint("aws-node-termination-handler/spot-itn")), "remove the taints of aws-node-termination-handler"},
		"excluded":          {out(func(n *outNode) { n.node.Labels[v1alpha1.LabelExclude] = "true" }), "kubectl label node node-1 " + v1alpha1.LabelExclude + "- first"},
		"returning already": {out(cordon, func(n *outNode) { n.attachment.Spec.Wanted = v1alpha1.WantAttached }), ""},
		"gone":              {out(func(n *outNode) { n.node = nil }), "kubectl delete attachment node-1 forgets it"},
		"unknown":           {out(forgotten, func(n *outNode) { n.node = nil }), `there is no node "node-1"`},
		"only annotated":    {out(forgotten, cordon), ""},
		"attached":          {out(forgotten, func(n *outNode) { n.node.Annotations = nil }), "it is not out of its load balancers"},
		"for maintenance":   {out(forgotten, cordon, func(n *outNode) { n.node.Annotations, n.own = nil, []running{{}} }), ""},
	} {
		err := c.node.mayReturn()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, reason := range detach.AllReasons {
		if remedies[reason] == "" && reason != detach.Annotated {
			t.Errorf("nothing says how to end %s", reason)
		}
	}
}

func TestByHand(t *testing.T) {
	want := []string{
		"aws elbv2 register-targets --target-group-arn " + webARN + " --region eu-west-1 --targets Id=i-1,Port=80 Id=i-1,Port=443",
		"aws elb register-instances-with-load-balancer --load-balancer-name old --region eu-north-1 --instances i-1",
		"kubectl label node node-1 node.kubernetes.io/exclude-from-external-load-balancers-",
		"kubectl taint node node-1 node-detacher.variant.run/detaching-",
	}
	n := out(func(n *outNode) { n.node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintDetaching}} })
	got, err := byHand(n.attachment, n.node)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	n = out(func(n *outNode) { n.node.Labels = map[string]string{v1alpha1.LabelExclude: "true"} })
	if got, err := byHand(n.attachment, n.node); len(got) != 2 || err != nil {
		t.Errorf("marks that are not ours: %v, %q", err, got)
	}
	if got, err := byHand(n.attachment, nil); len(got) != 2 || err != nil {
		t.Errorf("without its Node: %v, %q", err, got)
	}
	n.attachment.Status.Groups[0].Targets = []string{"i-1"}
	if _, err := byHand(n.attachment, n.node); err == nil || !strings.Contains(err.Error(), `"i-1" is no target`) {
		t.Errorf("what cannot be read is left out: %v", err)
	}
}

// TestReturn tells what is waited for, and whether anybody puts targets back.
func TestReturn(t *testing.T) {
	returning := func(n *outNode) { n.attachment.Spec.Wanted = v1alpha1.WantAttached }
	registered := func(n *outNode) {
		for i := range n.attachment.Status.Groups {
			n.attachment.Status.Groups[i].Leaving = nil
		}
		n.attachment.Status.Waits = "i-1: its first health checks are under way"
	}
	for name, c := range map[string]struct {
		node        *outNode
		waits, left string
	}{
		"not asked yet":    {out(), "has not seen yet", "all"},
		"not observed yet": {out(returning, func(n *outNode) { n.attachment.Generation++ }), "has not looked at its targets yet", "unseen"},
		"being registered": {out(returning, func(n *outNode) { n.attachment.Status.Waits = "i-1: it is being registered" }), "it is being registered", "2"},
		"being checked":    {out(returning, registered), "its first health checks are under way", ""},
		"done":             {out(returning, registered, func(n *outNode) { n.attachment.Status.Waits = "" }), "the controller is to say", ""},
	} {
		a := c.node.attachment
		if line := waiting(a); !strings.HasPrefix(line, "Waiting for node/node-1: ") || !strings.Contains(line, c.waits) || unreturned(a) != c.left {
			t.Errorf("%s: %s, left %q, want %q and %q", name, line, unreturned(a), c.waits, c.left)
		}
	}
}

func TestAttachArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		ok   bool
	}{{[]string{"node-1"}, true}, {[]string{"--all"}, true}, {nil, false}, {[]string{"--all", "node-1"}, false}, {[]string{"node-1", "node-2"}, false}} {
		command := (&operator{}).attach()
		if err := command.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := command.ValidateArgs(command.Flags().Args()); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
