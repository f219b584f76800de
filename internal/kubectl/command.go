// Package kubectl is the kubectl plugin: commands that show rollouts and targets, steer rollouts,
// and detach and attach nodes for maintenance. command.go has the root and the way to the API
// server, show.go, plan.go, steer.go, maintain.go and attach.go the commands, release.go what attach
// takes off a Node, live.go what is shown anew, fleet.go what a plan is made from; text.go and
// explain.go make text of objects, change.go changes specs, all without I/O.
package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what the commands change.
const fieldManager = "kubectl-ids"

// NewCommand is kubectl ids. version is what --version prints.
func NewCommand(streams genericiooptions.IOStreams, version string) *cobra.Command {
	o := &operator{streams: streams, flags: genericclioptions.NewConfigFlags(true)}
	c := &cobra.Command{
		Use:           "kubectl-ids",
		Short:         "See and steer the rollouts of IngressDaemonSets",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ids"},
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.SetOut(streams.Out)
	c.SetErr(streams.ErrOut)
	o.flags.AddFlags(c.PersistentFlags())
	rollout := group("rollout", "Steer a rollout", o.rolloutStatus(), o.history(), o.undo(), o.pause(), o.resume(), o.restart(), o.promote())
	port := group("port", "Steer health-check ports", o.releasePort())
	c.AddCommand(o.status(), o.plan(), o.explain(), o.detach(), o.attach(), port, rollout)
	for _, named := range slices.Concat(c.Commands(), port.Commands(), rollout.Commands()) {
		named.ValidArgsFunction = o.complete
	}
	return c
}

// group is a command that only has others. One that it does not have is an error, not help.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return fmt.Errorf("unknown command %q for %q: see %s --help", args[0], c.CommandPath(), c.CommandPath())
	}}
	c.AddCommand(commands...)
	return c
}

// complete gives what may stand in the place of the next argument: a command's Use
// names its arguments.
func (o *operator) complete(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	wanted := strings.Fields(c.Use)[1:]
	if len(args) >= len(wanted) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := map[string]client.ObjectList{"NAME": &v1alpha1.IngressDaemonSetList{}, "NODE": &corev1.NodeList{}}[wanted[len(args)]]
	api, namespace, err := o.connect()
	if err != nil || list == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if wanted[len(args)] == "NODE" {
		namespace = ""
	}
	if err := api.List(c.Context(), list, client.InNamespace(namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, object.(client.Object).GetName())
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// operator is who calls, and where.
type operator struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
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
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme} {
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

// change patches the IngressDaemonSet with what edit makes of it, again where only the
// status or the metadata changed meanwhile. A spec that somebody else changed is not what
// the caller saw: an undo after theirs would take that back.
func (o *operator) change(ctx context.Context, name string, edit func(client.Client, *v1alpha1.IngressDaemonSet) (done string, err error)) error {
	for seen := int64(0); ; {
		c, set, err := o.get(ctx, name)
		if err != nil {
			return err
		}
		if seen != 0 && set.Generation != seen {
			return fmt.Errorf("somebody else changed the spec of ingressdaemonset %q at the same time, and nothing was done here: see what it is now, and try again", name)
		}
		seen = set.Generation
		before := set.DeepCopy()
		done, err := edit(c, set)
		if err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err = c.Patch(ctx, set, patch, client.FieldOwner(fieldManager))
		if apierrors.IsConflict(err) {
			continue
		}
		if err == nil {
			fmt.Fprintf(o.streams.Out, "ingressdaemonset.%s/%s %s\n", v1alpha1.GroupVersion.Group, name, done)
		}
		return err
	}
}

// follow calls see with the IngressDaemonSet as it is and each time that it
// changes, until that is done or the context ends.
func (o *operator) follow(ctx context.Context, name string, see func(*v1alpha1.IngressDaemonSet) (done bool, err error)) error {
	for {
		done, err := o.followOnce(ctx, name, see)
		if done || err != nil && ctx.Err() == nil {
			return err
		}
		// The API server ends a watch now and then.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (o *operator) followOnce(ctx context.Context, name string, see func(*v1alpha1.IngressDaemonSet) (bool, error)) (done bool, err error) {
	c, set, err := o.get(ctx, name)
	if err != nil {
		return false, err
	}
	w, err := c.Watch(ctx, &v1alpha1.IngressDaemonSetList{}, client.InNamespace(set.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		set, ok := event.Object.(*v1alpha1.IngressDaemonSet)
		switch {
		case !ok:
			return false, apierrors.FromObject(event.Object)
		case event.Type == watch.Deleted:
			return false, fmt.Errorf("ingressdaemonset %q was deleted", name)
		}
		if done, err := see(set); done || err != nil {
			return true, err
		}
	}
	return false, nil
}
