package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/conversion"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (o *operator) from() *cobra.Command {
	return &cobra.Command{
		Use:   "from TYPE/NAME",
		Short: "Print an IngressDaemonSet of a DaemonSet or a Deployment that runs",
		Long: `Print an IngressDaemonSet of a DaemonSet or a Deployment that runs, with a comment on each
field that is not what it was, because it means something else here or is refused. Nothing is
changed in the cluster.`,
		Example: examples("kubectl ids from daemonset/nginx", "kubectl ids from deployment/ingress-nginx-controller -n ingress-nginx > proxy.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			kind, name, err := readWorkload(args[0])
			if err != nil {
				return err
			}
			api, namespace, err := o.connect()
			if err != nil {
				return err
			}
			made, err := convert(c.Context(), api, kind, types.NamespacedName{Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			text, err := made.YAML()
			if err == nil {
				_, err = fmt.Fprint(o.streams.Out, text)
			}
			return err
		},
	}
}

// workloads are the kinds that can be converted, by what kubectl calls them.
var workloads = map[string]string{
	"daemonset": "daemonset", "daemonsets": "daemonset", "ds": "daemonset", "daemonset.apps": "daemonset", "daemonsets.apps": "daemonset",
	"deployment": "deployment", "deployments": "deployment", "deploy": "deployment", "deployment.apps": "deployment", "deployments.apps": "deployment",
}

func readWorkload(arg string) (kind, name string, err error) {
	word, name, found := strings.Cut(arg, "/")
	kind = workloads[strings.ToLower(word)]
	switch {
	case found && kind != "" && name != "":
		return kind, name, nil
	case found && name != "":
		return "", "", fmt.Errorf("%q can be made nothing of%s (daemonset/NAME or deployment/NAME)", arg, meant("", nearest(word, []string{"daemonset", "deployment"})))
	}
	return "", "", fmt.Errorf("%q is not TYPE/NAME, such as daemonset/nginx", arg)
}

func convert(ctx context.Context, api client.Client, kind string, key types.NamespacedName) (conversion.Converted, error) {
	if kind == "daemonset" {
		ds := &appsv1.DaemonSet{}
		if err := api.Get(ctx, key, ds); err != nil {
			return conversion.Converted{}, err
		}
		return conversion.FromDaemonSet(ds), unowned(kind, ds)
	}
	d := &appsv1.Deployment{}
	if err := api.Get(ctx, key, d); err != nil {
		return conversion.Converted{}, err
	}
	pods, err := podsOf(ctx, api, d)
	if err != nil {
		return conversion.Converted{}, err
	}
	return conversion.FromDeployment(d, pods), unowned(kind, d)
}

// unowned is an error where something else makes the object, such as an IngressDaemonSet: it would be
// made again.
func unowned(kind string, object client.Object) error {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return fmt.Errorf("%s/%s is made by %s/%s, which would make it again: convert that", kind, object.GetName(), strings.ToLower(owner.Kind), owner.Name)
	}
	return nil
}

// podsOf are the pods that a Deployment's selector selects and that run, or are to.
func podsOf(ctx context.Context, api client.Client, d *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector: %w", err)
	}
	var pods corev1.PodList
	if err := api.List(ctx, &pods, client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	}), nil
}
