package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusFlags are how rollout status waits.
type statusFlags struct {
	watch    bool
	revision int64
	timeout  time.Duration
}

func (o *operator) rolloutStatus() *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:     "status NAME",
		Short:   "Wait until the rollout is complete",
		Example: examples("kubectl ids rollout status nginx", "kubectl ids rollout status nginx --timeout 10m", "kubectl ids rollout status nginx --watch=false"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(notNegative("revision", f.revision), notNegative("timeout", f.timeout)); err != nil {
				return err
			}
			return f.run(c.Context(), o, args[0])
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", true, "wait; with --watch=false show how far it is and end, with an error only where it does not go on by itself")
	c.Flags().Int64Var(&f.revision, "revision", 0, "wait for this revision: fail where the template is, or becomes, that of another")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "give up after this long; 0 for never")
	return c
}

func (f statusFlags) run(ctx context.Context, o *operator, name string) error {
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, errors.New("timed out waiting for the rollout"))
		defer cancel()
	}
	hash, err := o.hashOf(ctx, name, f.revision)
	if err != nil {
		return err
	}
	last := ""
	see := func(set *v1alpha1.IngressDaemonSet) (bool, error) {
		if present := objects.Revision(objects.Template(set)); hash != "" && present != hash {
			return true, fmt.Errorf("revision %d (%s) is not what is rolled out: the template is that of %s", f.revision, hash, present)
		}
		line, done, err := progress(set)
		if err == nil && line != last {
			fmt.Fprintln(o.streams.Out, printable(line))
		}
		last = line
		return done, err
	}
	if !f.watch {
		_, set, err := o.get(ctx, name)
		if err == nil {
			_, err = see(set)
		}
		return err
	}
	// The rollout goes on, or stands, whether or not anybody can look: who waits for it waits on.
	if err := o.follow(ctx, name, see, o.sayAway()); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// hashOf is the hash of a revision by its number; empty for 0, which is whatever is rolled out.
func (o *operator) hashOf(ctx context.Context, name string, revision int64) (string, error) {
	if revision == 0 {
		return "", nil
	}
	api, set, err := o.get(ctx, name)
	if err != nil {
		return "", err
	}
	records, err := recorded(ctx, api, set)
	if err != nil {
		return "", err
	}
	record, err := byNumber(records, revision)
	if err != nil {
		return "", err
	}
	return record.Labels[v1alpha1.LabelRevision], nil
}

func (o *operator) undo() *cobra.Command {
	var revision int64
	c := &cobra.Command{
		Use:     "undo NAME",
		Short:   "Go back to the template of an earlier revision",
		Example: examples("kubectl ids rollout undo nginx", "kubectl ids rollout undo nginx --to-revision 2"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notNegative("to-revision", revision); err != nil {
				return err
			}
			return o.change(c.Context(), args[0], byRecord(c.Context(), func(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision) (string, error) {
				return undo(set, records, revision)
			}))
		},
	}
	c.Flags().Int64Var(&revision, "to-revision", 0, "the revision to go back to; 0 for the one before the present")
	return c
}

func (o *operator) abort() *cobra.Command {
	return &cobra.Command{
		Use:   "abort NAME",
		Short: "Go back to the template that all nodes served with last; retry tries this one again",
		Long: `Go back to the template that all nodes served with last, status.currentRevision, by a rollout
like any other. Unlike undo it goes past revisions that never came through, and does nothing
where the present one did. What was aborted is remembered: rollout retry tries it again.`,
		Example: examples("kubectl ids rollout abort nginx"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.change(c.Context(), args[0], byRecord(c.Context(), abort))
		},
	}
}

func (o *operator) retry() *cobra.Command {
	return &cobra.Command{
		Use:   "retry NAME",
		Short: "Try a rollout again that was aborted, rejected or halted",
		Long: `Try a rollout again:

- one that was aborted, by going to its template again;
- one of which the template was rejected (failurePolicy Rollback), by an annotation on the
  template, which makes another revision of it, as rollout restart does;
- one that is halted, because a node was not detached in time, the analysis failed or, with
  failurePolicy Pause, the progress deadline is over: a change of the spec ends a halt, and
  spec.paused is written that means nothing else than before.`,
		Example: examples("kubectl ids rollout retry nginx"),
		RunE: func(c *cobra.Command, args []string) error {
			again := byRecord(c.Context(), func(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision) (string, error) {
				return tryAgain(set, records, time.Now())
			})
			return o.write(c.Context(), args[0], func(api client.Client, set *v1alpha1.IngressDaemonSet) (client.Patch, string, error) {
				if isHalted(set) {
					return goOn(c.Context(), api, set)
				}
				return again.patch(api, set)
			})
		},
	}
}

// byRecord is an edit that needs the revisions on record.
func byRecord(ctx context.Context, change func(*v1alpha1.IngressDaemonSet, []appsv1.ControllerRevision) (done string, err error)) edit {
	return func(api client.Client, set *v1alpha1.IngressDaemonSet) (string, error) {
		records, err := recorded(ctx, api, set)
		if err != nil {
			return "", err
		}
		return change(set, records)
	}
}

// changing is a command that changes the spec.
func (o *operator) changing(use, short string, edit func(*v1alpha1.IngressDaemonSet) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Example: examples("kubectl ids rollout " + use + " nginx"),
		RunE: func(c *cobra.Command, args []string) error {
			return o.change(c.Context(), args[0], func(_ client.Client, set *v1alpha1.IngressDaemonSet) (string, error) { return edit(set) })
		},
	}
}

func (o *operator) pause() *cobra.Command {
	return o.changing("pause", "Start no further node; those under way come to their end", pause)
}

func (o *operator) resume() *cobra.Command {
	return o.changing("resume", "Go on with a paused rollout", resume)
}

func (o *operator) restart() *cobra.Command {
	return o.changing("restart", "Replace all pods, by a rollout like any other", func(set *v1alpha1.IngressDaemonSet) (string, error) {
		return restart(set, time.Now())
	})
}

func (o *operator) promote() *cobra.Command {
	past := false
	c := o.changing("promote", "Go past the analysis of the last wave, or with --partition past the partition", func(set *v1alpha1.IngressDaemonSet) (string, error) {
		if past {
			return promoteFleet(set)
		}
		return promote(set)
	})
	c.Flags().BoolVar(&past, "partition", false, "go past the partition: every node that it holds back gets the template too")
	return c
}

func (o *operator) setImage() *cobra.Command {
	return &cobra.Command{
		Use:     "image NAME CONTAINER=IMAGE...",
		Short:   "Roll out other images of containers; * stands for all containers",
		Example: examples("kubectl ids set image nginx nginx=nginx:1.23", "kubectl ids set image nginx nginx=nginx:1.23 exporter=nginx-prometheus-exporter:1.4"),
		RunE: func(c *cobra.Command, args []string) error {
			images, err := readImages(args[1:])
			if err != nil {
				return err
			}
			return o.change(c.Context(), args[0], func(_ client.Client, set *v1alpha1.IngressDaemonSet) (string, error) { return setImages(set, images) })
		},
	}
}

// releasePort refuses a port that nobody answers on, which is a slip.
func (o *operator) releasePort() *cobra.Command {
	return &cobra.Command{
		Use:     "release NAME PORT",
		Short:   "Close a health-check port that was removed from the spec, although somebody may still ask it",
		Example: examples("kubectl ids port release nginx 10079"),
		RunE: func(c *cobra.Command, args []string) error {
			port, err := strconv.ParseUint(args[1], 10, 16)
			if err != nil || port == 0 {
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
