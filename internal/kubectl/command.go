// Package kubectl is the kubectl plugin: commands that show rollouts and targets, steer rollouts,
// and detach and attach nodes for maintenance.
//
// Its files, in the order in which to open them:
//
//   - command.go: the root. operator.go: the way to the API server. arguments.go: what is amiss in a command line.
//     complete.go: what may stand in one.
//   - Each family of commands has a file: list.go (list, top), show.go (status, explain), plan.go, steer.go and
//     history.go (rollout, set, port), maintain.go (detach), attach.go, routes.go, from.go, version.go.
//   - follow.go: how what changes is seen. live.go: how it is shown anew. release.go: what attach takes off a Node.
//     fleet.go: what a plan is made from. reasons.go: why pods do not serve, by their events. routed.go: what proxies
//     are told, compiled here; refusals.go: what of it is not served.
//   - Texts made of objects, without I/O: text.go, rows.go, explain.go, routestext.go.
//   - Changes to specs, without I/O: change.go, again.go.
package kubectl

import (
	"errors"
	"flag"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

// NewCommand is kubectl ids. version is what --version prints.
func NewCommand(streams genericiooptions.IOStreams, version string) *cobra.Command {
	o := &operator{streams: streams, flags: genericclioptions.NewConfigFlags(true), version: version}
	c := group("kubectl-ids", "See and steer the rollouts of IngressDaemonSets",
		examples("kubectl ids list -A", "kubectl ids status nginx --watch", "kubectl ids explain nginx node-1"),
		o.list(), o.top(), o.status(), o.explain(), o.plan(), o.routes(), o.from(), o.detach(), o.attach(), o.showVersion(),
		group("rollout", "Steer a rollout", examples("kubectl ids rollout status nginx", "kubectl ids rollout undo nginx"),
			o.rolloutStatus(), o.history(), o.undo(), o.abort(), o.retry(), o.pause(), o.resume(), o.restart(), o.promote()),
		group("set", "Change what a rollout brings to the nodes", examples("kubectl ids set image nginx nginx=nginx:1.23"), o.setImage()),
		group("port", "Steer health-check ports", examples("kubectl ids port release nginx 10079"), o.releasePort()),
	)
	c.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ids"}
	c.Version = version
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(streams.Out)
	c.SetErr(streams.ErrOut)
	c.SetFlagErrorFunc(flagError)
	o.flags.AddFlags(c.PersistentFlags())
	addVerbosity(c)
	o.wantArguments(c)
	wantKinds(c)
	c.SetHelpCommand(help())
	c.InitDefaultHelpCmd()
	addCompletion(c)
	return c
}

// addVerbosity adds kubectl's flag for how much is logged, such as each request at 6.
func addVerbosity(c *cobra.Command) {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	c.PersistentFlags().AddGoFlag(flags.Lookup("v"))
}

// wantKinds has every command say what it means that the API server does not know our kinds.
func wantKinds(c *cobra.Command) {
	for _, inner := range c.Commands() {
		wantKinds(inner)
	}
	run := c.RunE
	if run == nil {
		return
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if meta.IsNoMatchError(err) {
			return errors.New("this cluster has no IngressDaemonSets: the controller, with its CRDs, is not installed, or kubectl means another cluster (kubectl config current-context)")
		}
		return err
	}
}

// group is a command that only has others.
func group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Example: example}
	c.AddCommand(commands...)
	wantCommand(c)
	return c
}
