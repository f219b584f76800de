package kubectl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/forecast"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// assumed are what a plan takes for granted, where flags say so.
type assumed struct {
	file string
	// named is the IngressDaemonSet in the file, nil where none is named.
	named                       *v1alpha1.IngressDaemonSet
	revision                    int64
	ready, stop, detach, attach time.Duration
	output                      string
}

func (o *operator) plan() *cobra.Command {
	var a assumed
	c := &cobra.Command{
		Use:     "plan NAME",
		Short:   "Show what a rollout would do, wave by wave, and how long it would take, without touching anything",
		Example: examples("kubectl ids plan nginx", "kubectl ids plan nginx -f nginx.yaml", "kubectl ids plan nginx --revision 2 --ready 20s"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.read(c, args[0]); err != nil {
				return err
			}
			api, namespace, err := o.connectFor(a.named)
			if err != nil {
				return err
			}
			live := &v1alpha1.IngressDaemonSet{}
			if err := api.Get(c.Context(), types.NamespacedName{Namespace: namespace, Name: args[0]}, live); err != nil {
				return err
			}
			objects, err := readFleet(c.Context(), api, live)
			if err != nil {
				return err
			}
			set, err := a.planned(c.Context(), api, live, objects.revisions)
			if err != nil {
				return err
			}
			p, err := planOf(c.Context(), live, set, objects, a, time.Now())
			if err != nil {
				return err
			}
			text, err := p.show(a.output)
			if err == nil {
				_, err = fmt.Fprint(o.streams.Out, text)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&a.file, "filename", "f", "", "plan with the IngressDaemonSet in this file instead of the present one")
	f.Int64Var(&a.revision, "revision", 0, "plan to go to the template of this revision")
	f.DurationVar(&a.ready, "ready", 0, "how long a pod takes to be ready; by default what the present pods took")
	f.DurationVar(&a.stop, "stop", 0, "how long a pod takes to end; by default there are two plans, one with no time and one with terminationGracePeriodSeconds")
	f.DurationVar(&a.detach, "detach", 0, "how long the detacher takes to detach a node")
	f.DurationVar(&a.attach, "attach", 0, "how long the detacher takes to attach a node")
	f.StringVarP(&a.output, "output", "o", "", "json or yaml")
	c.MarkFlagsMutuallyExclusive("filename", "revision")
	return c
}

// connectFor gives a client and the namespace of an IngressDaemonSet in a file, nil for none: its own, or that
// of the flags. As for kubectl it may not be another one than -n names.
func (o *operator) connectFor(named *v1alpha1.IngressDaemonSet) (client.Client, string, error) {
	api, namespace, err := o.connect()
	if err != nil || named == nil || named.Namespace == "" {
		return api, namespace, err
	}
	if asked := *o.flags.Namespace; asked != "" && asked != named.Namespace {
		return nil, "", fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. You must pass '--namespace=%s' to perform this operation",
			named.Namespace, asked, named.Namespace)
	}
	return api, named.Namespace, nil
}

// notGiven stands for a duration that no flag names: it is measured, or planned with in two ways.
const notGiven = -1

// read reads what the flags name, and finds what is wrong with it.
func (a *assumed) read(c *cobra.Command, name string) error {
	if err := errors.Join(notNegative("revision", a.revision), notNegative("ready", a.ready), notNegative("stop", a.stop),
		notNegative("detach", a.detach), notNegative("attach", a.attach), oneOf(a.output, "json", "yaml")); err != nil {
		return err
	}
	if !c.Flags().Changed("ready") {
		a.ready = notGiven
	}
	if !c.Flags().Changed("stop") {
		a.stop = notGiven
	}
	if a.file == "" {
		return nil
	}
	content, err := os.ReadFile(a.file)
	if err != nil {
		return err
	}
	if a.named, err = fromManifests(content, name); err != nil {
		return fmt.Errorf("%s: %w", a.file, err)
	}
	return nil
}

// planned is the IngressDaemonSet to plan with. That in a file is completed and
// judged by the API server, in a dry run.
func (a assumed) planned(ctx context.Context, api client.Client, live *v1alpha1.IngressDaemonSet, revisions []appsv1.ControllerRevision) (*v1alpha1.IngressDaemonSet, error) {
	switch set := live.DeepCopy(); {
	case a.revision != 0:
		_, err := undo(set, ownRevisions(live, revisions), a.revision)
		return set, err
	case a.named == nil:
		return set, nil
	}
	// A patch names no version: in a rollout the status is written all the time.
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": a.named.Spec}})
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	return set, api.Patch(ctx, set, client.RawPatch(types.JSONPatchType, patch), client.DryRunAll, client.FieldOwner(fieldManager))
}

// fromManifests finds the IngressDaemonSet of a name among YAML documents.
func fromManifests(content []byte, name string) (*v1alpha1.IngressDaemonSet, error) {
	var others []string
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it holds no IngressDaemonSet %q%s", name, strings.Join(others, ""))
		}
		if err != nil {
			return nil, err
		}
		var object metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, err
		}
		if object.Kind != v1alpha1.Kind.Kind || object.Name != name {
			if object.Kind != "" {
				others = append(others, fmt.Sprintf(", but %s %q", object.Kind, object.Name))
			}
			continue
		}
		set := &v1alpha1.IngressDaemonSet{}
		return set, yaml.UnmarshalStrict(document, set)
	}
}

// remaining is how long a rollout would still take.
type remaining struct {
	// plan reads the fleet and plans.
	plan func(context.Context, *v1alpha1.IngressDaemonSet) (plan, error)

	last plan
	// planned is the version of the IngressDaemonSet that it was planned for, empty
	// where that failed; at is when, and took how long that took.
	planned string
	at      time.Time
	took    time.Duration
}

func remainingOf(api client.Client) *remaining {
	return &remaining{plan: func(ctx context.Context, set *v1alpha1.IngressDaemonSet) (plan, error) {
		objects, err := readFleet(ctx, api, set)
		if err != nil {
			return plan{}, err
		}
		return planOf(ctx, set, set, objects, assumed{ready: notGiven, stop: notGiven}, time.Now())
	}}
}

// of is planned anew only where the IngressDaemonSet has changed, and seldom enough to
// spend a tenth of the time on it at most; meanwhile the time passes. It is empty where
// the rollout is complete, or where the objects cannot be read: the status is worth
// showing without it.
func (r *remaining) of(ctx context.Context, set *v1alpha1.IngressDaemonSet, now time.Time) string {
	if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing); c == nil || c.Reason == v1alpha1.ReasonComplete {
		return ""
	}
	if pause := max(5*time.Second, 10*r.took); r.planned != set.ResourceVersion && (r.at.IsZero() || now.Sub(r.at) >= pause) {
		began := time.Now()
		p, err := r.plan(ctx, set)
		r.last, r.planned, r.at, r.took = p, set.ResourceVersion, now, time.Since(began)
		if err != nil {
			r.planned = ""
		}
	}
	if r.planned == "" {
		return ""
	}
	return r.last.remaining(now.Sub(r.at))
}

// remaining is what is left of the plan after a while.
func (p plan) remaining(passed time.Duration) string {
	left := func(took time.Duration) string { return seconds(max(0, took-passed)) }
	switch f := p.forecast; {
	case f.Stops != "":
		return "it would stop: " + f.Stops
	case p.longest > f.Took:
		return fmt.Sprintf("%s to %s, by how long pods take to stop", left(f.Took), left(p.longest))
	default:
		return left(f.Took)
	}
}

// plan is a forecast in words.
type plan struct {
	heading, assumption string
	forecast            forecast.Forecast
	// longest is how long it takes where pods use their whole termination grace
	// period; 0 where that is not asked.
	longest time.Duration
}

func planOf(ctx context.Context, live, set *v1alpha1.IngressDaemonSet, f fleet, a assumed, now time.Time) (plan, error) {
	s, err := f.state(live, set, now)
	if err != nil {
		return plan{}, err
	}
	out := plan{heading: fmt.Sprintf("%s/%s: revision %s, %s", set.Namespace, set.Name, s.Revision, strategyInWords(set.Spec.Strategy()))}
	ready, measured := f.pace(set.Spec.ProgressDeadline())
	switch {
	case a.ready >= 0:
		ready, out.assumption = a.ready, fmt.Sprintf("a pod is ready after %s", seconds(a.ready))
	case measured == 0:
		out.assumption = "a pod is ready at once (no pod tells how long that takes, --ready does)"
	default:
		out.assumption = fmt.Sprintf("a pod is ready after %s (the median of %d pods)", seconds(ready), measured)
	}
	pace := forecast.Pace{Ready: ready, Stop: max(0, a.stop), Detach: a.detach, Attach: a.attach}
	if out.forecast, err = forecast.Play(ctx, s, pace); err != nil {
		return plan{}, fmt.Errorf("planning: %w", err)
	}
	out.assumption += fmt.Sprintf(" and gone %s after it is stopped", seconds(pace.Stop))
	if t := set.Spec.UpdateStrategy.RollingUpdate; t != nil && t.WaitForDetachmentByAnnotatedTimestamp != nil {
		out.assumption += fmt.Sprintf(", and the detacher takes %s to detach and %s to attach", seconds(a.detach), seconds(a.attach))
	}
	if grace := set.Spec.Template.Spec.TerminationGracePeriodSeconds; a.stop < 0 && grace != nil {
		pace.Stop = time.Duration(*grace) * time.Second
		slowest, err := forecast.Play(ctx, s, pace)
		if err != nil {
			return plan{}, fmt.Errorf("planning: %w", err)
		}
		out.longest = slowest.Took
	}
	return out, nil
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }

// mostNamed bounds the nodes that are named in a row.
const mostNamed = 5

func (p plan) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.heading)
	f := p.forecast
	if len(f.Waves) > 0 {
		rows := [][]string{{"WAVE", "BEGINS", "SERVES", "NODES"}}
		for i, w := range f.Waves {
			names := strings.Join(w.Nodes[:min(len(w.Nodes), mostNamed)], " ")
			if more := len(w.Nodes) - mostNamed; more > 0 {
				names += fmt.Sprintf(" and %d more", more)
			}
			serves := seconds(w.Serves)
			if w.Serves == 0 {
				serves = "never"
			}
			rows = append(rows, []string{fmt.Sprint(i + 1), seconds(w.Begins), serves, names})
		}
		b.WriteString(columns(rows, ""))
		fmt.Fprintf(&b, "It would take %s where %s", seconds(f.Took), p.assumption)
		if p.longest > f.Took {
			fmt.Fprintf(&b, ", and %s where each pod takes its whole terminationGracePeriodSeconds", seconds(p.longest))
		}
		fmt.Fprintln(&b, ".")
	}
	switch {
	case len(f.Left) > 0:
		fmt.Fprintf(&b, "%d nodes would not get the revision: %s.\n", len(f.Left), f.Stops)
	case f.Stops != "":
		fmt.Fprintf(&b, "It would not end: %s.\n", f.Stops)
	case len(f.Waves) == 0:
		fmt.Fprintln(&b, "Nothing is to be done: every node has the revision.")
	}
	return b.String()
}

func (p plan) show(output string) (string, error) {
	type waveOut struct {
		Nodes         []string `json:"nodes"`
		BeginsSeconds float64  `json:"beginsSeconds"`
		ServesSeconds float64  `json:"servesSeconds"`
	}
	out := struct {
		Waves   []waveOut `json:"waves"`
		Seconds float64   `json:"seconds"`
		Left    []string  `json:"left,omitempty"`
		Stops   string    `json:"stops,omitempty"`
	}{Waves: []waveOut{}, Seconds: p.forecast.Took.Seconds(), Left: p.forecast.Left, Stops: p.forecast.Stops}
	for _, w := range p.forecast.Waves {
		out.Waves = append(out.Waves, waveOut{w.Nodes, w.Begins.Seconds(), w.Serves.Seconds()})
	}
	switch output {
	case "":
		return p.text(), nil
	case "json":
		text, err := json.MarshalIndent(out, "", "    ")
		return string(text) + "\n", err
	case "yaml":
		text, err := yaml.Marshal(out)
		return string(text), err
	}
	return "", fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: json,yaml", output)
}
