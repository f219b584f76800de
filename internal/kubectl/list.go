package kubectl

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *operator) list() *cobra.Command {
	var everywhere bool
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the IngressDaemonSets: how far each rollout is, and why it is no further",
		Example: examples("kubectl ids list", "kubectl ids list -A", "kubectl ids list -A -o wide"),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := printer(output)
			if err != nil {
				return err
			}
			api, namespace, err := o.connectTo(everywhere)
			if err != nil {
				return err
			}
			sets := &v1alpha1.IngressDaemonSetList{}
			if err := api.List(c.Context(), sets, client.InNamespace(namespace)); err != nil {
				return err
			}
			if p != nil {
				sets.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IngressDaemonSetList"))
				for i := range sets.Items {
					sets.Items[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("IngressDaemonSet"))
				}
				return p.PrintObj(sets, o.streams.Out)
			}
			if len(sets.Items) == 0 {
				fmt.Fprintln(o.streams.ErrOut, "No IngressDaemonSets found")
				return nil
			}
			rows := fleetRows(sets.Items, everywhere, output == "wide", time.Now(), styleOf(o.streams.Out))
			_, err = fmt.Fprint(o.streams.Out, columns(rows, ""))
			return err
		},
	}
	addEverywhere(c, &everywhere)
	c.Flags().StringVarP(&output, "output", "o", "", "json, yaml or wide")
	return c
}

func addEverywhere(c *cobra.Command, everywhere *bool) {
	c.Flags().BoolVarP(everywhere, "all-namespaces", "A", false, "those of all namespaces")
}

func (o *operator) top() *cobra.Command {
	var everywhere bool
	c := &cobra.Command{
		Use:   "top",
		Short: "Show all rollouts at once, anew whenever one changes, on a terminal in place",
		Long: `Show all rollouts at once: how far each is, why it is no further, and the nodes that do not
serve. It is shown anew whenever one changes, on a terminal in place, until Ctrl-C ends it. While the
API server is away, the last picture stays, and says so.`,
		Example: examples("kubectl ids top", "kubectl ids top -A"),
		RunE: func(c *cobra.Command, _ []string) error {
			text := func(sets []v1alpha1.IngressDaemonSet) string {
				return topText(sets, everywhere, time.Now(), styleOf(o.streams.Out))
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			show, away := func(sets []v1alpha1.IngressDaemonSet) error {
				_, err := fmt.Fprintln(o.streams.Out, text(sets))
				return err
			}, o.sayAway()
			if view := redrawn(ctx, o.streams.Out, text); view != nil {
				show, away = view.changed, view.away
			}
			return o.followAll(ctx, everywhere, show, away)
		},
	}
	addEverywhere(c, &everywhere)
	return c
}
