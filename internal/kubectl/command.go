// Package kubectl is the kubectl plugin: commands that show rollouts and targets, steer rollouts,
// and detach and attach nodes for maintenance. command.go has the root and the way to the API
// server, arguments.go what is amiss in a command line, complete.go what may stand in one. Each family
// of commands has a file: show.go (status, explain), list.go (list, top), plan.go, routes.go, steer.go and
// history.go (rollout, set, port), maintain.go and attach.go, from.go, version.go. release.go is
// what attach takes off a Node, follow.go how what changes is seen, live.go how it is shown anew, fleet.go
// what a plan is made from; text.go, rows.go, explain.go and routestext.go make text of objects, change.go
// and again.go change specs, all without I/O.
package kubectl

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// fieldManager owns what the commands change.
const fieldManager = "kubectl-ids"

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

// operator is who calls, and where.
type operator struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	version string
}

// connect gives a client and the namespace that the flags name.
func (o *operator) connect() (client.WithWatch, string, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, discoveryv1.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			return nil, "", err
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	return c, namespace, err
}

func (o *operator) get(ctx context.Context, name string) (client.WithWatch, *v1alpha1.IngressDaemonSet, error) {
	c, namespace, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	set := &v1alpha1.IngressDaemonSet{}
	return c, set, c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, set)
}

// edit changes an IngressDaemonSet, and says what it did.
type edit func(client.Client, *v1alpha1.IngressDaemonSet) (done string, err error)

// change patches the IngressDaemonSet with what edit makes of it.
func (o *operator) change(ctx context.Context, name string, edit edit) error {
	return o.write(ctx, name, edit.patch)
}

// patch is the difference that it makes, of this version of the object alone.
func (e edit) patch(api client.Client, set *v1alpha1.IngressDaemonSet) (client.Patch, string, error) {
	before := set.DeepCopy()
	done, err := e(api, set)
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), done, err
}

// write patches the IngressDaemonSet, again where only the status or the metadata changed meanwhile, up to
// four times. A spec that somebody else changed is not what the caller saw: an undo after theirs would take
// that back.
func (o *operator) write(ctx context.Context, name string, decide func(client.Client, *v1alpha1.IngressDaemonSet) (client.Patch, string, error)) error {
	seen := int64(0)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, set, err := o.get(ctx, name)
		if err != nil {
			return err
		}
		if seen != 0 && set.Generation != seen {
			return fmt.Errorf("somebody else changed the spec of ingressdaemonset %q at the same time, and nothing was done here: see what it is now, and try again", name)
		}
		seen = set.Generation
		patch, done, err := decide(c, set)
		if err != nil {
			return err
		}
		err = c.Patch(ctx, set, patch, client.FieldOwner(fieldManager))
		if err == nil {
			fmt.Fprintf(o.streams.Out, "ingressdaemonset.%s/%s %s\n", v1alpha1.GroupVersion.Group, name, done)
		}
		return err
	})
}
