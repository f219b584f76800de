package kubectl

import (
	"fmt"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *operator) undo() *cobra.Command {
	var revision int64
	c := &cobra.Command{
		Use:   "undo NAME",
		Short: "Go back to the template of an earlier revision",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.change(c.Context(), args[0], func(api client.Client, set *v1alpha1.IngressDaemonSet) (string, error) {
				records, err := recorded(c.Context(), api, set)
				if err != nil {
					return "", err
				}
				return undo(set, records, revision)
			})
		},
	}
	c.Flags().Int64Var(&revision, "to-revision", 0, "the revision to go back to; 0 for the one before the present")
	return c
}

// edit is a command that changes the spec.
func (o *operator) edit(use, short string, edit func(*v1alpha1.IngressDaemonSet) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.change(c.Context(), args[0], func(_ client.Client, set *v1alpha1.IngressDaemonSet) (string, error) { return edit(set) })
		},
	}
}

func (o *operator) pause() *cobra.Command {
	return o.edit("pause", "Start no further node; those under way come to their end", pause)
}

func (o *operator) resume() *cobra.Command {
	return o.edit("resume", "Go on with a paused rollout", resume)
}

func (o *operator) promote() *cobra.Command {
	past := false
	c := o.edit("promote", "Go past the analysis of the last wave, or with --partition past the partition", func(set *v1alpha1.IngressDaemonSet) (string, error) {
		if past {
			return promoteFleet(set)
		}
		return promote(set)
	})
	c.Flags().BoolVar(&past, "partition", false, "go past the partition: every node that it holds back gets the template too")
	return c
}

// releasePort refuses a port that nobody answers on, which is a slip.
func (o *operator) releasePort() *cobra.Command {
	return &cobra.Command{
		Use:   "release NAME PORT",
		Short: "Close a health-check port that was removed from the spec, although somebody may still ask it",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			port, err := strconv.ParseUint(args[1], 10, 16)
			if err != nil {
				return fmt.Errorf("%q is not a port", args[1])
			}
			return o.change(c.Context(), args[0], func(api client.Client, set *v1alpha1.IngressDaemonSet) (string, error) {
				checkers := &appsv1.DaemonSetList{}
				if err := api.List(c.Context(), checkers, client.InNamespace(set.Namespace), client.MatchingLabels{
					v1alpha1.LabelName: v1alpha1.LabelValue(set.Name), v1alpha1.LabelHealthCheckPort: objects.PortLabel(int32(port)),
				}); err != nil {
					return "", err
				}
				if len(checkers.Items) == 0 {
					return "", fmt.Errorf("no health checker of ingressdaemonset %q answers on port %d", set.Name, port)
				}
				return releasePort(set, int32(port))
			})
		},
	}
}

func (o *operator) restart() *cobra.Command {
	return o.edit("restart", "Replace all pods, by a rollout like any other", func(set *v1alpha1.IngressDaemonSet) (string, error) {
		return restart(set, time.Now())
	})
}
