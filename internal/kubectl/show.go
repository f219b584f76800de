package kubectl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *operator) status() *cobra.Command {
	var again bool
	var output string
	c := &cobra.Command{
		Use:     "status NAME",
		Short:   "Show the rollout as a tree: the wave, and each node that does not serve",
		Example: examples("kubectl ids status nginx", "kubectl ids status nginx --watch", "kubectl ids status nginx -o yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := printer(output)
			if err != nil {
				return err
			}
			api, _, err := o.connect()
			if err != nil {
				return err
			}
			remaining, reasons := remainingOf(api), podReasonsOf(api)
			text := func(set *v1alpha1.IngressDaemonSet) string {
				now := time.Now()
				return tree(set, remaining.of(c.Context(), set, now), reasons.of(c.Context(), set, now), now, styleOf(o.streams.Out), output == "wide")
			}
			show := func(set *v1alpha1.IngressDaemonSet) error {
				if p != nil {
					set.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IngressDaemonSet"))
					return p.PrintObj(set, o.streams.Out)
				}
				_, err := fmt.Fprint(o.streams.Out, text(set))
				return err
			}
			if !again {
				_, set, err := o.get(c.Context(), args[0])
				if err != nil {
					return err
				}
				return show(set)
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			away := o.sayAway()
			if p == nil {
				if view := redrawn(ctx, o.streams.Out, text); view != nil {
					show, away = view.changed, view.away
				}
			}
			return o.follow(ctx, args[0], func(set *v1alpha1.IngressDaemonSet) (bool, error) { return false, show(set) }, away)
		},
	}
	c.Flags().BoolVarP(&again, "watch", "w", false, "show it anew whenever it changes, on a terminal in place")
	c.Flags().StringVarP(&output, "output", "o", "", "json, yaml or wide")
	return c
}

// printer is that of an output format, nil for text.
func printer(output string) (printers.ResourcePrinter, error) {
	switch output {
	case "json":
		return &printers.JSONPrinter{}, nil
	case "yaml":
		return &printers.YAMLPrinter{}, nil
	}
	return nil, oneOf(output, "json", "wide", "yaml")
}

func (o *operator) explain() *cobra.Command {
	return &cobra.Command{
		Use:     "explain NAME NODE",
		Short:   "Say why a node is in its state, what it waits for, and who holds it detached",
		Example: examples("kubectl ids explain nginx node-1"),
		RunE: func(c *cobra.Command, args []string) error {
			api, set, err := o.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			n := &corev1.Node{}
			missing := api.Get(c.Context(), types.NamespacedName{Name: args[1]}, n)
			if missing != nil && !apierrors.IsNotFound(missing) {
				return missing
			}
			onNode := client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name), v1alpha1.LabelNode: v1alpha1.LabelValue(args[1])}
			var deployments appsv1.DeploymentList
			var pods corev1.PodList
			for _, list := range []client.ObjectList{&deployments, &pods} {
				if err := api.List(c.Context(), list, client.InNamespace(set.Namespace), onNode); err != nil {
					return err
				}
			}
			if missing != nil {
				// What was on it may still be there.
				if listed := slices.ContainsFunc(set.Status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == args[1] }); !listed && len(deployments.Items)+len(pods.Items) == 0 {
					return missing
				}
				n = nil
			}
			events := warningsOf(c.Context(), api, set.Namespace)
			_, err = fmt.Fprint(o.streams.Out, explanation(set, args[1], n, deployments.Items, pods.Items, events, time.Now()))
			return err
		},
	}
}
