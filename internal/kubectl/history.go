package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func (o *operator) history() *cobra.Command {
	var revision int64
	var output string
	c := &cobra.Command{
		Use:     "history NAME",
		Short:   "List the revisions on record, or show the template of one",
		Example: examples("kubectl ids rollout history nginx", "kubectl ids rollout history nginx --revision 2", "kubectl ids rollout history nginx -o json"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := notNegative("revision", revision); err != nil {
				return err
			}
			if err := oneOf(output, "json", "yaml"); err != nil {
				return err
			}
			api, set, err := o.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			records, err := recorded(c.Context(), api, set)
			if err != nil {
				return err
			}
			text, err := historyText(set, records, revision, output)
			if err == nil {
				_, err = fmt.Fprint(o.streams.Out, text)
			}
			return err
		},
	}
	c.Flags().Int64Var(&revision, "revision", 0, "show the template of this revision")
	c.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return c
}

func recorded(ctx context.Context, c client.Client, set *v1alpha1.IngressDaemonSet) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)})
	return ownRevisions(set, list.Items), err
}

// pastRevision is a revision on record, for programs.
type pastRevision struct {
	Revision    int64    `json:"revision"`
	Hash        string   `json:"hash"`
	Images      []string `json:"images"`
	ChangeCause string   `json:"changeCause,omitempty"`
	// Present says whether it is that of the present template, Complete whether it is the last that all
	// nodes served with, which a rollback goes back to.
	Present  bool `json:"present,omitempty"`
	Complete bool `json:"complete,omitempty"`
	// Template is what the user wrote of it.
	Template *corev1.PodTemplateSpec `json:"template"`
}

// pastRevisions are those on record, oldest first.
func pastRevisions(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision) ([]pastRevision, error) {
	present := objects.Revision(objects.Template(set))
	out := []pastRevision{}
	for _, r := range slices.Backward(records) {
		t, err := objects.UserTemplate(&r)
		if err != nil {
			return nil, err
		}
		hash := r.Labels[v1alpha1.LabelRevision]
		out = append(out, pastRevision{
			Revision: r.Revision, Hash: hash, Images: images(&t.Spec), ChangeCause: t.Annotations["kubernetes.io/change-cause"],
			Present: hash == present, Complete: hash == set.Status.CurrentRevision, Template: &t,
		})
	}
	return out, nil
}

// historyText lists the revisions, or shows the template of one.
func historyText(set *v1alpha1.IngressDaemonSet, records []appsv1.ControllerRevision, number int64, output string) (string, error) {
	if number != 0 {
		record, err := byNumber(records, number)
		if err != nil {
			return "", err
		}
		template, err := objects.UserTemplate(record)
		if err != nil {
			return "", err
		}
		return encoded(&template, cmp.Or(output, "yaml"))
	}
	past, err := pastRevisions(set, records)
	if err != nil {
		return "", err
	}
	if output == "" {
		return historyRows(past), nil
	}
	return encoded(past, output)
}

// encoded is a value as JSON or YAML.
func encoded(value any, output string) (string, error) {
	if output == "json" {
		text, err := json.MarshalIndent(value, "", "    ")
		return string(text) + "\n", err
	}
	text, err := yaml.Marshal(value)
	return string(text), err
}

func historyRows(past []pastRevision) string {
	rows := [][]string{{"REVISION", "HASH", "IMAGES", "CHANGE-CAUSE", ""}}
	for _, r := range past {
		note, cause := "", r.ChangeCause
		switch {
		case r.Present:
			note = "the present template"
		case r.Complete:
			note = "what a rollback goes back to"
		}
		if cause == "" {
			cause = "<none>"
		}
		rows = append(rows, []string{fmt.Sprint(r.Revision), r.Hash, strings.Join(r.Images, ","), cause, note})
	}
	return columns(rows, "")
}
