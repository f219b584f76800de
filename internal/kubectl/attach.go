package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets/awscli"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attaching puts back nodes that were detached: for maintenance, or out of every load
// balancer because their Node says so.
type attaching struct {
	maintenance
	all, printAWS bool
	stalledAfter  time.Duration
}

func (o *operator) attach() *cobra.Command {
	var a attaching
	c := &cobra.Command{
		Use:   "attach NODE",
		Short: "Put a node back that was detached",
		Long: `Put a node back that was detached, or all that are out of their load balancers:

- in every IngressDaemonSet that runs on it, where it was detached for maintenance, in
  all namespaces or in that of --namespace;
- in every load balancer that the controller took it out of, where its annotation
  node-detacher.variant.run/detached, which is removed, asked for that. A node that would
  be taken out again for another reason, such as a cordon, is left as it is.

Where the controller does not put it back, the commands of the AWS CLI that do so are
printed.`,
		Example: examples("kubectl ids attach node-1", "kubectl ids attach --all", "kubectl ids attach node-1 --print-aws"),
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case a.all && len(args) > 0:
				return fmt.Errorf("unexpected argument %q beside --all", args[0])
			case a.all:
				return nil
			}
			return named(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(notNegative("timeout", a.timeout), notNegative("stalled-after", a.stalledAfter)); err != nil {
				return err
			}
			return a.run(c.Context(), o, args)
		},
	}
	a.addFlags(c)
	c.Flags().BoolVar(&a.all, "all", false, "put back every node that has an Attachment, such as before an uninstall")
	c.Flags().BoolVar(&a.printAWS, "print-aws", false, "change nothing, and print the commands that do it without the controller")
	c.Flags().DurationVar(&a.stalledAfter, "stalled-after", time.Minute, "print these commands and give up where no target was put back for this long")
	return c
}

// outNode is a node that is to be put back.
type outNode struct {
	name string
	// node is nil where it is gone, attachment where none is left.
	node       *corev1.Node
	attachment *v1alpha1.Attachment
	own        []running
}

// run begins with all nodes before it waits for one.
func (a attaching) run(ctx context.Context, o *operator, names []string) error {
	api, _, err := o.connect()
	if err != nil {
		return err
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	if a.all {
		if names, err = attachments(ctx, api); err != nil {
			return err
		}
		if len(names) == 0 {
			fmt.Fprintln(o.streams.Out, "No node is out of its load balancers")
		}
	}
	var begun []*outNode
	var failed []error
	for _, name := range names {
		n, err := a.read(ctx, o, api, name)
		switch {
		case err != nil:
		case a.printAWS:
			err = n.printAWS(o.streams.Out)
		case a.all && n.node == nil:
			fmt.Fprintf(o.streams.Out, "node/%s is gone: there is nothing to put back\n", name)
		default:
			if err = a.begin(ctx, api, n); err == nil {
				begun = append(begun, n)
			}
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	for _, n := range begun {
		if err := a.end(ctx, o, api, n); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// attachments are the names of the nodes that have one.
func attachments(ctx context.Context, api client.Client) ([]string, error) {
	var list v1alpha1.AttachmentList
	if err := api.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (a attaching) read(ctx context.Context, o *operator, api client.Client, name string) (*outNode, error) {
	n := &outNode{name: name, node: &corev1.Node{}}
	err := api.Get(ctx, client.ObjectKey{Name: name}, n.node)
	switch {
	case apierrors.IsNotFound(err):
		n.node = nil
	case err != nil:
		return nil, err
	}
	if n.attachment, err = attachmentOf(ctx, api, name); err != nil {
		return nil, err
	}
	n.own, err = o.runningOn(ctx, api, name)
	return n, err
}

// attachmentOf is nil where the node has none.
func attachmentOf(ctx context.Context, api client.Client, node string) (*v1alpha1.Attachment, error) {
	attachment := &v1alpha1.Attachment{}
	err := api.Get(ctx, client.ObjectKey{Name: node}, attachment)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return attachment, err
}

// begin asks for the node's return.
func (a attaching) begin(ctx context.Context, api client.Client, n *outNode) error {
	if err := n.mayReturn(); err != nil {
		return err
	}
	for _, r := range n.own {
		if err := a.annotate(ctx, api, r.deployment); err != nil {
			return err
		}
	}
	return n.release(ctx, api)
}

// asked reports whether the Node's annotation asks for its detachment.
func (n *outNode) asked() bool {
	_, asked := n.node.Annotations[v1alpha1.AnnotationNodeDetached]
	return asked
}

// mayReturn is an error where the node cannot be put back, or would be taken out again,
// with what to change.
func (n *outNode) mayReturn() error {
	switch {
	case n.node == nil && n.attachment == nil:
		return fmt.Errorf("there is no node %q", n.name)
	case n.node == nil:
		return fmt.Errorf("node %q is gone. What it was attached to is remembered for a day, in case it returns; kubectl delete attachment %s forgets it", n.name, n.name)
	case n.attachment == nil && len(n.own) == 0 && !n.asked():
		return fmt.Errorf("no IngressDaemonSet runs on node %q, and it is not out of its load balancers", n.name)
	case n.attachment == nil || n.attachment.Spec.Wanted == v1alpha1.WantAttached:
		return nil
	}
	state := detach.Node{Cordoned: n.node.Spec.Unschedulable, Taints: n.node.Spec.Taints, Labels: n.node.Labels}
	for _, reason := range detach.AllReasons {
		if state.Holds(reason) {
			return fmt.Errorf("node %q would be taken out again: %s", n.name, strings.ReplaceAll(remedies[reason], "NODE", n.name))
		}
	}
	return nil
}

// remedies end what keeps a node out, beside the annotation.
var remedies = map[detach.Reason]string{
	detach.Cordoned:           "it is cordoned. Run kubectl uncordon NODE first",
	detach.ClusterAutoscaler:  "the cluster autoscaler is about to remove it. If it does not, remove the taint ToBeDeletedByClusterAutoscaler first",
	detach.Karpenter:          "Karpenter is about to remove it. If it does not, remove the taint karpenter.sh/disrupted first",
	detach.TerminationHandler: "its machine is about to end. If it does not, remove the taints of aws-node-termination-handler first",
	detach.Excluded:           "somebody excludes it. Run kubectl label node NODE " + v1alpha1.LabelExclude + "- first",
}

// end waits until the node is back.
func (a attaching) end(ctx context.Context, o *operator, api client.Client, n *outNode) error {
	for _, r := range n.own {
		if err := a.await(ctx, o, api, r, n.name); err != nil {
			return err
		}
	}
	if n.attachment == nil && len(n.own) > 0 {
		return nil
	}
	name, done := "node/"+n.name, "to be attached"
	if a.wait {
		if err := a.follow(ctx, o, api, n); err != nil {
			return err
		}
		done = "attached"
	}
	fmt.Fprintln(o.streams.Out, name, done)
	return nil
}

// follow tells how far the node's targets are, until its Attachment is gone. It gives up
// where nobody puts them back.
func (a attaching) follow(ctx context.Context, o *operator, api client.Client, n *outNode) error {
	line, left, since := "", "", time.Now()
	for {
		attachment, err := attachmentOf(ctx, api, n.name)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && attachment == nil {
			return nil
		}
		if err == nil {
			n.attachment = attachment
			if l := waiting(attachment); l != line {
				fmt.Fprintln(o.streams.Out, l)
				line = l
			}
			if l := unreturned(attachment); l != left {
				left, since = l, time.Now()
			}
		}
		if left != "" && time.Since(since) >= a.stalledAfter {
			if err := n.printAWS(o.streams.Out); err != nil {
				return err
			}
			return fmt.Errorf("node %q: nothing was put back for %s. See that the controller runs with --detach and its cloud's credentials, or run the commands above", n.name, a.stalledAfter)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// waiting says what the node's return waits for.
func waiting(a *v1alpha1.Attachment) string {
	waits := a.Status.Waits
	switch {
	case a.Spec.Wanted == v1alpha1.WantDetached:
		waits = "the controller has not seen yet that it is to return"
	case a.Status.ObservedGeneration != a.Generation:
		waits = "the controller has not looked at its targets yet"
	case waits == "":
		waits = "the controller is to say that it is back"
	}
	return fmt.Sprintf("Waiting for node/%s: %s...", a.Name, waits)
}

// unreturned tells how much is left to be put back; nothing where all that is left is
// to become healthy.
func unreturned(a *v1alpha1.Attachment) string {
	if a.Spec.Wanted == v1alpha1.WantDetached {
		return "all"
	}
	if a.Status.ObservedGeneration != a.Generation {
		return "unseen"
	}
	leaving := 0
	for _, g := range a.Status.Groups {
		leaving += len(g.Leaving)
	}
	if leaving == 0 {
		return ""
	}
	return fmt.Sprint(leaving)
}

// printAWS prints what puts the node back without the controller.
func (n *outNode) printAWS(out io.Writer) error {
	if n.attachment == nil {
		return fmt.Errorf("node %q has no Attachment: nothing was taken out", n.name)
	}
	lines, err := byHand(n.attachment, n.node)
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	return err
}

// byHand are commands that register what an Attachment remembers and take the marks off
// its Node, nil where that is gone, which keep others from using it.
func byHand(a *v1alpha1.Attachment, node *corev1.Node) ([]string, error) {
	region := ""
	if node != nil {
		region = node.Labels[corev1.LabelTopologyRegion]
	}
	var lines []string
	for _, g := range a.Status.Groups {
		var had []targets.Registration
		names := slices.Clone(g.Targets)
		for _, l := range g.Leaving {
			names = append(names, l.Target)
		}
		for _, name := range names {
			r, err := targets.ParseRegistration(name)
			if err != nil {
				return nil, fmt.Errorf("attachment %q, group %s: %w", a.Name, g.ID, err)
			}
			had = append(had, r)
		}
		lines = append(lines, awscli.Register(region, targets.Group{ID: g.ID, Balancer: targets.Balancer(g.Balancer)}, had)...)
	}
	if node == nil {
		return lines, nil
	}
	if node.Labels[v1alpha1.LabelExclude] == v1alpha1.ExcludedByUs {
		lines = append(lines, "kubectl label node "+node.Name+" "+v1alpha1.LabelExclude+"-")
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDetaching }) {
		lines = append(lines, "kubectl taint node "+node.Name+" "+v1alpha1.TaintDetaching+"-")
	}
	return lines, nil
}
