package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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

// connectTo gives a client and the namespace that the flags name, empty for all.
func (o *operator) connectTo(everywhere bool) (client.WithWatch, string, error) {
	api, namespace, err := o.connect()
	if everywhere {
		namespace = ""
	}
	return api, namespace, err
}

func (o *operator) top() *cobra.Command {
	var everywhere bool
	c := &cobra.Command{
		Use:   "top",
		Short: "Show all rollouts at once, anew whenever one changes, on a terminal in place",
		Long: `Show all rollouts at once: how far each is, why it is no further, and the nodes that do not
serve. It is shown anew whenever one changes, on a terminal in place, until Ctrl-C ends it.`,
		Example: examples("kubectl ids top", "kubectl ids top -A"),
		RunE: func(c *cobra.Command, _ []string) error {
			text := func(sets []v1alpha1.IngressDaemonSet) string {
				return topText(sets, everywhere, time.Now(), styleOf(o.streams.Out))
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			show := redrawn(ctx, o.streams.Out, func(sets []v1alpha1.IngressDaemonSet) error {
				_, err := fmt.Fprintln(o.streams.Out, text(sets))
				return err
			}, text)
			return o.followAll(ctx, everywhere, show)
		},
	}
	addEverywhere(c, &everywhere)
	return c
}

// followAll calls see with all IngressDaemonSets as they are and each time that one changes, until the
// context ends.
func (o *operator) followAll(ctx context.Context, everywhere bool, see func([]v1alpha1.IngressDaemonSet) error) error {
	return rewatch(ctx, func() (bool, error) { return false, o.followAllOnce(ctx, everywhere, see) })
}

func (o *operator) followAllOnce(ctx context.Context, everywhere bool, see func([]v1alpha1.IngressDaemonSet) error) error {
	api, namespace, err := o.connectTo(everywhere)
	if err != nil {
		return err
	}
	var list v1alpha1.IngressDaemonSetList
	if err := api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	sets := map[types.NamespacedName]v1alpha1.IngressDaemonSet{}
	for _, set := range list.Items {
		sets[client.ObjectKeyFromObject(&set)] = set
	}
	if err := see(inOrder(sets)); err != nil {
		return err
	}
	since := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	w, err := api.Watch(ctx, &v1alpha1.IngressDaemonSetList{}, since)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		set, ok := event.Object.(*v1alpha1.IngressDaemonSet)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		if sets[client.ObjectKeyFromObject(set)] = *set; event.Type == watch.Deleted {
			delete(sets, client.ObjectKeyFromObject(set))
		}
		if err := see(inOrder(sets)); err != nil {
			return err
		}
	}
	return nil
}

// inOrder are the IngressDaemonSets by namespace and name.
func inOrder(sets map[types.NamespacedName]v1alpha1.IngressDaemonSet) []v1alpha1.IngressDaemonSet {
	keys := slices.SortedFunc(maps.Keys(sets), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out []v1alpha1.IngressDaemonSet
	for _, key := range keys {
		out = append(out, sets[key])
	}
	return out
}
