package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/forecast"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// onNodes is a fleet of nodes of which each runs two pods of a revision, that
// took 4 seconds to be ready.
func onNodes(nodes int, revision string) fleet {
	f := fleet{deployments: map[string]*appsv1.Deployment{}, pods: map[string][]*corev1.Pod{}}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i+1)
		f.nodes = append(f.nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
		onNode := map[string]string{v1alpha1.AnnotationNode: name, v1alpha1.AnnotationPodsPerNode: "2"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "nginx-" + name, Annotations: onNode}}
		d.Spec.Replicas = new(int32(2))
		d.Spec.Template.Labels = map[string]string{v1alpha1.LabelRevision: revision}
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = 2, 2, 2
		f.deployments[name] = d
		for j := range 2 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", d.Name, j), Labels: d.Spec.Template.Labels, Annotations: onNode, CreationTimestamp: ago(time.Hour)}}
			pod.Status.Phase = corev1.PodRunning
			for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour - 4*time.Second)})
			}
			f.pods[name] = append(f.pods[name], pod)
		}
	}
	f.daemonSets = []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelHealthCheckPort: objects.PortLabel(10080)}}}}
	return f
}

func TestPlan(t *testing.T) {
	unmeasured := assumed{ready: -1, stop: -1}
	for name, c := range map[string]struct {
		nodes   int
		assumed assumed
		change  func(*v1alpha1.IngressDaemonSet)
	}{
		"default": {3, unmeasured, func(*v1alpha1.IngressDaemonSet) {}},
		"assumed": {3, assumed{ready: time.Minute, stop: 5 * time.Second}, func(*v1alpha1.IngressDaemonSet) {}},
		"partition": {20, unmeasured, func(set *v1alpha1.IngressDaemonSet) {
			u := set.Spec.UpdateStrategy.RollingUpdate
			u.MaxUnavailableNodes, u.Partition = new(intstr.FromString("50%")), new(intstr.FromString("25%"))
		}},
		"paused": {3, unmeasured, func(set *v1alpha1.IngressDaemonSet) { set.Spec.Paused = true }},
	} {
		t.Run(name, func(t *testing.T) {
			live := midway()
			live.Status = v1alpha1.IngressDaemonSetStatus{}
			set := live.DeepCopy()
			set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(300))
			c.change(set)
			p, err := planOf(t.Context(), live, set, onNodes(c.nodes, "aaaaaaaaaa"), c.assumed, now)
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, *update, filepath.Join("testdata", "plan-"+name), p.text())
		})
	}
}

func TestPlanAsJSON(t *testing.T) {
	p, err := planOf(t.Context(), midway(), midway(), onNodes(2, "aaaaaaaaaa"), assumed{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"json", "yaml"} {
		text, err := p.show(output)
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, *update, filepath.Join("testdata", "plan-"+output), text)
	}
	if _, err := p.show("xml"); err == nil {
		t.Error("a plan is shown as xml")
	}
}

// TestPace is from starts: a pod that was unready meanwhile, or whose Node was, tells
// nothing of how long a start takes.
func TestPace(t *testing.T) {
	ready := func(kind corev1.PodConditionType, after time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for i, c := range pod.Status.Conditions {
				if c.Type == kind {
					pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(pod.CreationTimestamp.Add(after))
				}
			}
		}
	}
	flapped := ready(corev1.ContainersReady, 719*time.Hour)
	restarted := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{}, {RestartCount: 1}}
		ready(corev1.ContainersReady, time.Minute)(pod)
	}
	for name, c := range map[string]struct {
		of, odd int
		change  func(*corev1.Pod)
		want    string
	}{
		"none was unready":      {3, 0, flapped, "a pod is ready after 4s (the median of 6 pods)"},
		"most flapped":          {3, 2, flapped, "a pod is ready after 4s (the median of 2 pods)"},
		"all flapped":           {3, 3, flapped, "a pod is ready at once (no pod tells how long that takes, --ready does)"},
		"all Nodes flapped":     {3, 3, ready(corev1.PodReady, 719*time.Hour), "a pod is ready after 4s (the median of 6 pods)"},
		"containers restarted":  {3, 2, restarted, "a pod is ready after 4s (the median of 2 pods)"},
		"starts take that long": {3, 3, ready(corev1.ContainersReady, 599*time.Second), "a pod is ready after 9m59s (the median of 6 pods)"},
	} {
		f := onNodes(c.of, "aaaaaaaaaa")
		for i := range c.odd {
			for _, pod := range f.pods[fmt.Sprintf("node-%d", i+1)] {
				c.change(pod)
			}
		}
		p, err := planOf(t.Context(), midway(), midway(), f, assumed{ready: -1, stop: -1}, now)
		if err != nil || !strings.HasPrefix(p.assumption, c.want) {
			t.Errorf("%s: %v, %s; want %s", name, err, p.assumption, c.want)
		}
	}
}

// TestPlanEndsWithTheContext leaves a plan that nobody waits for any more.
func TestPlanEndsWithTheContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := planOf(ctx, midway(), midway(), onNodes(2, "aaaaaaaaaa"), assumed{}, now); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRemaining plans again where the IngressDaemonSet has changed, not more often than
// that is worth, and lets the time pass meanwhile.
func TestRemaining(t *testing.T) {
	plans, failure := 0, error(nil)
	r := &remaining{plan: func(context.Context, *v1alpha1.IngressDaemonSet) (plan, error) {
		plans++
		return plan{forecast: forecast.Forecast{Took: time.Minute}}, failure
	}}
	set := midway()
	for i, step := range []struct {
		version string
		at      time.Duration
		fails   bool
		want    string
		plans   int
	}{
		{"1", 0, false, "1m0s", 1},
		{"1", 30 * time.Second, false, "30s", 1},
		{"1", 5 * time.Minute, false, "0s", 1},
		{"2", 5 * time.Minute, false, "1m0s", 2},
		{"3", 5*time.Minute + 2*time.Second, false, "58s", 2},
		{"3", 5*time.Minute + 6*time.Second, false, "1m0s", 3},
		{"4", 6 * time.Minute, true, "", 4},
		{"4", 6*time.Minute + time.Second, true, "", 4},
		{"4", 6*time.Minute + 6*time.Second, false, "1m0s", 5},
	} {
		set.ResourceVersion, failure = step.version, nil
		if step.fails {
			failure = errors.New("no answer")
		}
		if got := r.of(t.Context(), set, now.Add(step.at)); got != step.want || plans != step.plans {
			t.Errorf("step %d: %q after %d plans, want %q after %d", i, got, plans, step.want, step.plans)
		}
	}
	set.Status.Conditions[1].Reason = v1alpha1.ReasonComplete
	set.ResourceVersion = "5"
	if got := r.of(t.Context(), set, now.Add(time.Hour)); got != "" || plans != 5 {
		t.Errorf("%q of a rollout that is complete, after %d plans", got, plans)
	}
}

// TestPlanOfAFile plans with what the file says, also where the status is written at the
// same time, and stores nothing.
func TestPlanOfAFile(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	set.Spec.PodsPerNode = new(int32(2))
	set.Status = v1alpha1.IngressDaemonSetStatus{}
	f.putFleet(set, onNodes(2, objects.Revision(objects.Template(set))))
	named := set.DeepCopy()
	named.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind.Kind}
	for image, want := range map[string]string{"nginx:1.22": "Nothing is to be done", "nginx:1.23": "node-2\nIt would take"} {
		named.Spec.Template.Spec.Containers[0].Image = image
		manifest, err := yaml.Marshal(named)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(file, manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		f.beforePatch = func() {
			set.Status.ServingNodes++
			f.put(kindSet, set)
		}
		if out, err := f.ids("plan", "nginx", "-f", file); err != nil || !strings.Contains(out, want) || f.beforePatch != nil {
			t.Errorf("%s: %v\n%s", image, err, out)
		}
	}
	if f.read(kindSet, "nginx", set); set.Spec.Template.Spec.Containers[0].Image != "nginx:1.22" {
		t.Errorf("stored is %+v", set.Spec)
	}
}

// TestPlanOfANamespace looks where kubectl would apply the file: in its own namespace, or where it names none
// in that of -n, or of the context. One that names another than -n is refused before the cluster is asked.
func TestPlanOfANamespace(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	set.Spec.PodsPerNode = new(int32(2))
	set.Status = v1alpha1.IngressDaemonSetStatus{}
	f.putFleet(set, onNodes(2, objects.Revision(objects.Template(set))))
	const planned, elsewhere = "Nothing is to be done", "could not find the requested resource (get ingressdaemonsets"
	const other = `the namespace from the provided object "edge" does not match the namespace "default". You must pass '--namespace=edge' to perform this operation`
	for _, c := range []struct{ file, flag, context, want string }{
		{"default", "", "edge", planned},
		{"default", "default", "edge", planned},
		{"", "default", "edge", planned},
		{"", "", "default", planned},
		{"", "", "edge", elsewhere},
		{"", "edge", "default", elsewhere},
		{"edge", "", "default", elsewhere},
		{"edge", "default", "edge", other},
	} {
		named := set.DeepCopy()
		named.TypeMeta, named.Namespace = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind.Kind}, c.file
		manifest, err := yaml.Marshal(named)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file, config := filepath.Join(dir, "new.yaml"), filepath.Join(dir, "kubeconfig")
		for path, content := range map[string]string{file: string(manifest), config: fmt.Sprintf(kubeconfig, f.url, c.context)} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"plan", "nginx", "-f", file, "--kubeconfig", config}
		if c.flag != "" {
			args = append(args, "-n", c.flag)
		}
		f.asked = 0
		out, err := f.run(args)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, c.want) || c.want == other && f.asked > 0 {
			t.Errorf("of the file %q, -n %q, of the context %q: %s", c.file, c.flag, c.context, out)
		}
	}
}

// kubeconfig is for a server, with a namespace.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: it, clusters: [{name: it, cluster: {server: %q}}],
  contexts: [{name: it, context: {cluster: it, namespace: %q}}]}`

// TestFromManifests finds the IngressDaemonSet among other objects.
func TestFromManifests(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: proxy}\n"
	set := func(spec string) string {
		return "apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1\nkind: IngressDaemonSet\nmetadata: {name: proxy}\nspec: " + spec + "\n"
	}
	for manifests, want := range map[string]string{
		set("{podsPerNode: 3}"): "",
		"# Two objects.\n" + configMap + "---\n" + set("{podsPerNode: 3}"): "",
		configMap:                 `it holds no IngressDaemonSet "proxy", but ConfigMap "proxy"`,
		"":                        `it holds no IngressDaemonSet "proxy"`,
		set("{podPerNode: 3}"):    `unknown field "podPerNode"`,
		"kind: [IngressDaemonSet": "did not find expected",
	} {
		got, err := fromManifests([]byte(manifests), "proxy")
		switch {
		case want == "" && (err != nil || got.Spec.Pods() != 3):
			t.Errorf("%s\n%v, %v", manifests, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n%v, want %s", manifests, err, want)
		}
	}
}

// BenchmarkPlan plans a rollout of 5,000 nodes one by one, for pods that stop at once
// and for pods that use their whole grace period.
func BenchmarkPlan(b *testing.B) {
	set := midway()
	set.Status = v1alpha1.IngressDaemonSetStatus{}
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(300))
	f := onNodes(5000, "aaaaaaaaaa")
	f.revisions = []appsv1.ControllerRevision{{ObjectMeta: metav1.ObjectMeta{
		Labels:          map[string]string{v1alpha1.LabelRevision: "aaaaaaaaaa"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
	}}}
	for b.Loop() {
		p, err := planOf(b.Context(), set, set, f, assumed{ready: -1, stop: -1}, now)
		if err != nil || len(p.forecast.Waves) != 5000 {
			b.Fatalf("%d waves, %v", len(p.forecast.Waves), err)
		}
	}
}
