package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maintenance is a command that takes a node out of the load balancer for as long
// as somebody works on it, or puts it back.
type maintenance struct {
	detach  bool
	wait    bool
	timeout time.Duration
}

func (o *operator) detach() *cobra.Command {
	m := maintenance{detach: true}
	short := "Take a node out of the load balancer and keep it out, for maintenance"
	c := &cobra.Command{
		Use: "detach NODE", Short: short,
		Long:    short + ": for every IngressDaemonSet that runs on it, in all namespaces or in that of --namespace.",
		Example: examples("kubectl ids detach node-1", "kubectl ids detach node-1 --timeout 5m"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notNegative("timeout", m.timeout); err != nil {
				return err
			}
			return m.run(c.Context(), o, args[0])
		},
	}
	m.addFlags(c)
	return c
}

func (m *maintenance) addFlags(c *cobra.Command) {
	c.Flags().BoolVar(&m.wait, "wait", true, "wait until it is done")
	c.Flags().DurationVar(&m.timeout, "timeout", 0, "give up waiting after this long; 0 for never")
}

// bounded is a context that ends with the timeout.
func (m maintenance) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, m.timeout, errors.New("timed out waiting"))
}

func (m maintenance) run(ctx context.Context, o *operator, node string) error {
	api, _, err := o.connect()
	if err != nil {
		return err
	}
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	own, err := o.runningOn(ctx, api, node)
	if err != nil {
		return err
	}
	if len(own) == 0 {
		return fmt.Errorf("no IngressDaemonSet runs on node %q", node)
	}
	for _, r := range own {
		if err := m.permitted(ctx, api, r.set, node); err != nil {
			return err
		}
	}
	for _, r := range own {
		if err := m.annotate(ctx, api, r.deployment); err != nil {
			return err
		}
	}
	for _, r := range own {
		if err := m.await(ctx, o, api, r, node); err != nil {
			return err
		}
	}
	return nil
}

// running is an IngressDaemonSet and its Deployment on a node.
type running struct {
	set        *v1alpha1.IngressDaemonSet
	deployment *appsv1.Deployment
}

// runningOn are those of all namespaces, or of that of --namespace: unlike in other
// commands, none means all.
func (o *operator) runningOn(ctx context.Context, api client.Client, node string) ([]running, error) {
	deployments := &appsv1.DeploymentList{}
	if err := api.List(ctx, deployments, client.InNamespace(*o.flags.Namespace), client.MatchingLabels{v1alpha1.LabelNode: v1alpha1.LabelValue(node)}); err != nil {
		return nil, err
	}
	var own []running
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Annotations[v1alpha1.AnnotationNode] != node {
			continue
		}
		set, err := ownerOf(ctx, api, d)
		if err != nil {
			return nil, err
		}
		if set == nil {
			continue
		}
		own = append(own, running{set, d})
	}
	return own, nil
}

// ownerOf is the IngressDaemonSet of a Deployment, nil where it was left behind.
func ownerOf(ctx context.Context, api client.Client, d *appsv1.Deployment) (*v1alpha1.IngressDaemonSet, error) {
	owner := metav1.GetControllerOf(d)
	if owner == nil {
		return nil, nil
	}
	set := &v1alpha1.IngressDaemonSet{}
	err := api.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: owner.Name}, set)
	if apierrors.IsNotFound(err) || err == nil && set.UID != owner.UID {
		return nil, nil
	}
	return set, err
}

// permitted asks the controller's own planner whether the node may go now.
func (m maintenance) permitted(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet, node string) error {
	objects, err := readFleet(ctx, api, set)
	if err != nil {
		return err
	}
	state, err := objects.state(set, set, time.Now())
	if err != nil {
		return err
	}
	return mayDetach(state, set, node)
}

// mayDetach is an error where the node could not be detached, with what to change.
func mayDetach(s rollout.State, set *v1alpha1.IngressDaemonSet, node string) error {
	strategy := set.Spec.Strategy()
	if len(set.Spec.HealthCheckNodePorts) == 0 && set.Spec.ServiceName == "" && strategy.AnnotateNode == nil {
		return fmt.Errorf("ingressdaemonset %q: nothing would tell the load balancer: it has no healthCheckNodePorts, serviceName or annotateNodeToDetach", set.Name)
	}
	i := slices.IndexFunc(s.Nodes, func(n rollout.Node) bool { return n.Name == node })
	if i < 0 || s.Nodes[i].Deployment == nil {
		return fmt.Errorf("ingressdaemonset %q does not run on node %q", set.Name, node)
	}
	if s.Nodes[i].Marked() {
		return nil
	}
	s.Nodes[i].Deployment.Detached, s.Nodes[i].Deployment.Outmoded = true, false
	d := rollout.Plan(s)
	if slices.Contains(d.Status.Wave, node) {
		return nil
	}
	blocked := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked)
	if blocked == nil || blocked.Status != metav1.ConditionTrue {
		// It waits for something that ends by itself, such as another node's turn.
		return nil
	}
	return fmt.Errorf("ingressdaemonset %q: %s", set.Name, blocked.Message)
}

// annotate asks for it on the node's Deployment, where the spec does not say so
// that GitOps tools have nothing to undo.
func (m maintenance) annotate(ctx context.Context, api client.Client, d *appsv1.Deployment) error {
	before := d.DeepCopy()
	if m.detach {
		d.Annotations[v1alpha1.AnnotationDetached] = v1alpha1.DetachedValue(fieldManager, time.Now())
	} else {
		delete(d.Annotations, v1alpha1.AnnotationDetached)
	}
	return api.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(fieldManager))
}

// await follows the node until it is out, or serves again.
func (m maintenance) await(ctx context.Context, o *operator, api client.Client, own running, node string) error {
	set := own.set
	name := fmt.Sprintf("node/%s of ingressdaemonset.%s/%s", node, v1alpha1.GroupVersion.Group, set.Name)
	last, wanted := "", v1alpha1.NodeServing
	if m.detach {
		wanted = v1alpha1.NodeDetached
	}
	for m.wait {
		if err := api.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil && ctx.Err() == nil {
			return err
		}
		state, reason := stateOf(set, node)
		if state == "" {
			var err error
			if state, reason, err = judged(ctx, api, set, node); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if state == v1alpha1.NodeDetached && m.detach {
			var err error
			if state, reason, err = confirmed(ctx, api, own); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if state == wanted {
			break
		}
		if line := fmt.Sprintf("Waiting for %s: %s...", name, strings.TrimPrefix(strings.ToLower(string(state))+", "+reason, ", ")); line != last {
			fmt.Fprintln(o.streams.Out, line)
			last = line
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	done := map[bool]string{true: "detached", false: "attached"}[m.detach]
	if !m.wait {
		done = "to be " + done
	}
	fmt.Fprintf(o.streams.Out, "%s %s\n", name, done)
	return nil
}

// confirmed reports whether a node that the status calls detached is: the status may be from
// before somebody attached it. What is out has its mark.
func confirmed(ctx context.Context, api client.Client, own running) (v1alpha1.NodeState, string, error) {
	d := &appsv1.Deployment{}
	if err := api.Get(ctx, client.ObjectKeyFromObject(own.deployment), d); err != nil {
		return "", "", err
	}
	if _, marked := v1alpha1.MarkOf(d.Annotations, own.set.Spec.Strategy().MarkKey); !marked {
		return v1alpha1.NodeServing, "its mark is not written yet", nil
	}
	return v1alpha1.NodeDetached, "", nil
}

// mostListed is how many nodes the planner lists in a status.
const mostListed = 50

// stateOf is what the status says of a node, empty where it does not: those that it does
// not list serve, unless there are more than it can list.
func stateOf(set *v1alpha1.IngressDaemonSet, node string) (v1alpha1.NodeState, string) {
	for _, n := range set.Status.Nodes {
		if n.Name == node {
			return n.State, n.Reason
		}
	}
	switch {
	case slices.Contains(set.Status.Wave, node):
		return v1alpha1.NodeDetaching, "it is its turn"
	case len(set.Status.Nodes) >= mostListed:
		return "", fmt.Sprintf("it is not among the %d nodes that the status lists, and more do not serve", mostListed)
	}
	return v1alpha1.NodeServing, "it waits for its turn"
}

// judged is what the controller's own planner says of one node, from its objects. Its
// health checks, which are not asked, are taken to follow its mark at once: that is
// enough to tell whether it is back, not whether traffic to it has ended.
func judged(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet, node string) (v1alpha1.NodeState, string, error) {
	f, err := readNode(ctx, api, set, node)
	if err != nil {
		return "", "", err
	}
	s, err := f.state(set, set, time.Now())
	if err != nil {
		return "", "", err
	}
	for _, n := range rollout.Plan(s).Status.Nodes {
		if n.Name == node {
			return n.State, n.Reason, nil
		}
	}
	return v1alpha1.NodeServing, "", nil
}
