package kubectl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *operator) status() *cobra.Command {
	var again bool
	var output string
	c := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the rollout as a tree: the wave, and each node that does not serve",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := printer(output)
			if err != nil {
				return err
			}
			api, _, err := o.connect()
			if err != nil {
				return err
			}
			remaining := remainingOf(api)
			text := func(set *v1alpha1.IngressDaemonSet) string {
				now := time.Now()
				return tree(set, remaining.of(c.Context(), set, now), now, styleOf(o.streams.Out), output == "wide")
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
			if size := sizeOf(o.streams.Out); size != nil && p == nil {
				ctx, stop := context.WithCancel(c.Context())
				defer stop()
				drawing := &canvas{out: o.streams.Out, size: size}
				view := &live[*v1alpha1.IngressDaemonSet]{show: func(set *v1alpha1.IngressDaemonSet) error { return drawing.draw(text(set)) }}
				go view.tick(ctx)
				show = view.changed
			}
			return o.follow(c.Context(), args[0], func(set *v1alpha1.IngressDaemonSet) (bool, error) { return false, show(set) })
		},
	}
	c.Flags().BoolVarP(&again, "watch", "w", false, "show it anew whenever it changes, on a terminal in place")
	c.Flags().StringVarP(&output, "output", "o", "", "json, yaml or wide")
	return c
}

// printer is that of an output format, nil for text.
func printer(output string) (printers.ResourcePrinter, error) {
	switch output {
	case "", "wide":
		return nil, nil
	case "json":
		return &printers.JSONPrinter{}, nil
	case "yaml":
		return &printers.YAMLPrinter{}, nil
	}
	return nil, fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: json,wide,yaml", output)
}

func (o *operator) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain NAME NODE",
		Short: "Say why a node is in its state, what it waits for, and who holds it detached",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			api, set, err := o.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			n := &corev1.Node{}
			if err := api.Get(c.Context(), types.NamespacedName{Name: args[1]}, n); err != nil {
				return err
			}
			deployments := &appsv1.DeploymentList{}
			if err := api.List(c.Context(), deployments, client.InNamespace(set.Namespace), client.MatchingLabels{
				v1alpha1.LabelName: v1alpha1.LabelValue(set.Name), v1alpha1.LabelNode: v1alpha1.LabelValue(n.Name),
			}); err != nil {
				return err
			}
			pods := &corev1.PodList{}
			if err := api.List(c.Context(), pods, client.InNamespace(set.Namespace), client.MatchingLabels{
				v1alpha1.LabelName: v1alpha1.LabelValue(set.Name), v1alpha1.LabelNode: v1alpha1.LabelValue(n.Name),
			}); err != nil {
				return err
			}
			_, err = fmt.Fprint(o.streams.Out, explanation(set, n, deployments.Items, pods.Items, time.Now()))
			return err
		},
	}
}

func (o *operator) rolloutStatus() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "status NAME",
		Short: "Wait until the rollout is complete",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, errors.New("timed out waiting for the rollout"))
				defer cancel()
			}
			last := ""
			err := o.follow(ctx, args[0], func(set *v1alpha1.IngressDaemonSet) (bool, error) {
				line, done, err := progress(set)
				if err == nil && line != last {
					fmt.Fprintln(o.streams.Out, line)
				}
				last = line
				return done, err
			})
			if err == nil {
				err = context.Cause(ctx)
			}
			return err
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long; 0 for never")
	return c
}

func (o *operator) history() *cobra.Command {
	var revision int64
	c := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions on record, or show the template of one",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, set, err := o.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			records, err := recorded(c.Context(), api, set)
			if err != nil {
				return err
			}
			text, err := historyText(set, records, revision)
			if err == nil {
				_, err = fmt.Fprint(o.streams.Out, text)
			}
			return err
		},
	}
	c.Flags().Int64Var(&revision, "revision", 0, "show the template of this revision")
	return c
}

func recorded(ctx context.Context, c client.Client, set *v1alpha1.IngressDaemonSet) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)})
	return ownRevisions(set, list.Items), err
}
