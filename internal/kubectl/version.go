package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Where the controller is, as config/controller and the chart install it.
const (
	controllerNamespace = "ingress-daemonset-system"
	labelOfName         = "app.kubernetes.io/name"
	controllerName      = "ingress-daemonset-controller"
	labelOfVersion      = "app.kubernetes.io/version"
)

// controllerVersion is what runs of the controller, for programs.
type controllerVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	Image     string `json:"image"`
}

func (o *operator) showVersion() *cobra.Command {
	var clientOnly bool
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Show the versions of this program and of the controller",
		Example: examples("kubectl ids version", "kubectl ids version --client"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf(output, "json", "yaml"); err != nil {
				return err
			}
			var found []controllerVersion
			var err error
			if !clientOnly {
				found, err = o.controllers(c.Context())
			}
			text := versionText(o.version, found)
			if output != "" {
				var failed error
				if text, failed = encoded(map[string]any{"client": o.version, "controllers": append([]controllerVersion{}, found...)}, output); failed != nil {
					return failed
				}
			}
			fmt.Fprint(o.streams.Out, text)
			if err == nil && !clientOnly && len(found) == 0 {
				err = fmt.Errorf("no controller was found: no Deployment has the label %s=%s, but for one that nameOverride of the chart gave another", labelOfName, controllerName)
			}
			return err
		},
	}
	c.Flags().BoolVar(&clientOnly, "client", false, "show that of this program only, and ask no cluster")
	c.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return c
}

// controllers are those of all namespaces, or of the usual one for users who may not look everywhere.
func (o *operator) controllers(ctx context.Context) ([]controllerVersion, error) {
	api, _, err := o.connect()
	if err != nil {
		return nil, err
	}
	labelled := client.MatchingLabels{labelOfName: controllerName}
	var list appsv1.DeploymentList
	if err = api.List(ctx, &list, labelled); apierrors.IsForbidden(err) {
		err = api.List(ctx, &list, labelled, client.InNamespace(controllerNamespace))
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the controller: %w", err)
	}
	var found []controllerVersion
	for i := range list.Items {
		found = append(found, versionOf(&list.Items[i]))
	}
	return found, nil
}

// versionOf goes by the image's tag, which tells what runs, and by the label where there is none that does.
func versionOf(d *appsv1.Deployment) controllerVersion {
	v := controllerVersion{Namespace: d.Namespace, Name: d.Name, Version: cmp.Or(d.Labels[labelOfVersion], "unknown")}
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return v
	}
	named := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "controller" })
	v.Image = containers[max(0, named)].Image
	image, _, _ := strings.Cut(v.Image[strings.LastIndex(v.Image, "/")+1:], "@")
	if _, tag, tagged := strings.Cut(image, ":"); tagged && (tag != "latest" || v.Version == "unknown") {
		v.Version = tag
	}
	return v
}

func versionText(version string, found []controllerVersion) string {
	rows := [][]string{{"Client:", version}}
	for _, c := range found {
		rows = append(rows, []string{"Controller:", fmt.Sprintf("%s (deployment %s/%s, image %s)", c.Version, c.Namespace, c.Name, c.Image)})
	}
	return columns(rows, "")
}
