package kubectl

import (
	"path/filepath"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completer is the name under which kubectl looks for the program that completes what follows
// kubectl ids (k8s.io/kubectl/pkg/cmd/plugin_completion.go).
const completer = "kubectl_complete-ids"

// Arguments are the arguments to run with of a program that was called with all of these, its own name
// first: under the name of the completer they are what is to be completed.
func Arguments(called []string) []string {
	if strings.TrimSuffix(filepath.Base(called[0]), ".exe") == completer {
		return append([]string{cobra.ShellCompRequestCmd}, called[1:]...)
	}
	return called[1:]
}

// addCompletion adds cobra's command that prints completion scripts, which shows help for a shell
// that it does not know.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		wantCommand(c)
		c.Example = examples("kubectl ids completion bash")
		for _, shell := range c.Commands() {
			shell.Args, shell.Example = named, examples("kubectl ids completion "+shell.Name())
		}
	}
}

// help is cobra's command of that name, but that it fails where there is nothing to help with.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show the help of a command", Example: examples("kubectl ids help rollout undo"), Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0 && about.HasSubCommands():
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, inner := range about.Commands() {
				if inner.IsAvailableCommand() {
					names = append(names, inner.Name())
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// complete gives what may stand in the place of the next argument: a command's Use
// names its arguments.
func (o *operator) complete(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	wanted := strings.Fields(c.Use)[1:]
	if len(args) >= len(wanted) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	switch wanted[len(args)] {
	case "NAME":
		return o.names(c, "", &v1alpha1.IngressDaemonSetList{}, true)
	case "NODE":
		return o.names(c, "", &corev1.NodeList{}, false)
	case "TYPE/NAME":
		names, _ := o.names(c, "daemonset/", &appsv1.DaemonSetList{}, true)
		more, directive := o.names(c, "deployment/", &appsv1.DeploymentList{}, true)
		return append(names, more...), directive
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// names are those of the objects of a kind, each after the prefix.
func (o *operator) names(c *cobra.Command, prefix string, list client.ObjectList, namespaced bool) ([]string, cobra.ShellCompDirective) {
	api, namespace, err := o.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if !namespaced {
		namespace = ""
	}
	if err := api.List(c.Context(), list, client.InNamespace(namespace)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, prefix+object.(client.Object).GetName())
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
