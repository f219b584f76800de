package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// update has TestComparison write what it prints into the page.
var update = flag.Bool("update", false, "write the table of TestComparison into docs/comparison.md")

const (
	comparisonPage = root + "/docs/comparison.md"
	// The table stands between these.
	comparisonBegin = "<!-- comparison: go test ./test/e2e -run TestComparison -update -->\n"
	comparisonEnd   = "<!-- end of the comparison -->\n"

	// sleepSeconds is how long the preStop hooks sleep: long beside the second in which the load
	// balancer finds a node down.
	sleepSeconds = 15
	// comparedVersion is what the template changes to.
	comparedVersion = "2"
)

// expected is what a contender is to lose.
type expected int

const (
	something expected = iota // it is a control: if it loses nothing, the test proves nothing
	nothing
	unknown
)

// contender is a way to roll nginx out.
type contender struct {
	// name and asks are its row: what is rolled out, and who answers the load balancer's checks.
	name, asks string
	// example is the file of examples/ whose template it runs.
	example string
	ports   harness.Ports
	// native makes what is to be different of a DaemonSet with that template; nil is for an IngressDaemonSet.
	native func(*appsv1.DaemonSet)
	loses  expected
}

// byKubeProxy is where the Service of examples/service.yaml is reached and asked.
var byKubeProxy = harness.Ports{Traffic: 30080, Check: 30081}

var contenders = []contender{
	{"IngressDaemonSet", "the health checker", "nginx.yaml", hostTold, nil, nothing},
	{"DaemonSet", "nginx", "nginx.yaml", hostUntold, plain, something},
	{"DaemonSet, preStop sleep of 15 s", "nginx", "nginx.yaml", hostUntold, sleeping, something},
	{"IngressDaemonSet with `serviceName`", "kube-proxy", "service.yaml", byKubeProxy, nil, nothing},
	{"DaemonSet and a Service", "kube-proxy", "service.yaml", byKubeProxy, plain, something},
	{"DaemonSet and a Service, preStop sleep of 15 s", "kube-proxy", "service.yaml", byKubeProxy, sleeping, unknown},
	{"DaemonSet and a Service, the same sleep, `maxSurge` 1", "kube-proxy", "service.yaml", byKubeProxy, surging, unknown},
}

func plain(*appsv1.DaemonSet) {}

func sleeping(set *appsv1.DaemonSet) {
	set.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: sleepSeconds}}}
}

func surging(set *appsv1.DaemonSet) {
	sleeping(set)
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1))}
}

// TestComparison rolls the templates of examples/ out in each way, one node at a time, behind the same load
// balancer and under the same traffic, and prints what each has lost: the table of docs/comparison.md.
func TestComparison(t *testing.T) {
	table := strings.Builder{}
	table.WriteString("| rolled out | the load balancer asks | requests | failed | took |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			report, took := c.play(t)
			fmt.Fprintf(&table, "| %s | %s | %d | %d | %.0f s |\n", c.name, c.asks, report.Requests, report.Failed, took.Seconds())
		})
	}
	t.Log("what each has lost:\n" + table.String())
	if *update && !t.Failed() {
		writeComparison(t, table.String())
	}
}

// writeComparison puts the table into the page.
func writeComparison(t *testing.T, table string) {
	t.Helper()
	before, rest, begins := strings.Cut(string(readFile(t, comparisonPage)), comparisonBegin)
	_, after, ends := strings.Cut(rest, comparisonEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", filepath.Base(comparisonPage))
	}
	if err := os.WriteFile(comparisonPage, []byte(before+comparisonBegin+table+comparisonEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// play rolls the contender out under traffic. It takes from the change of the template until all that is
// left has the new one and is available.
func (c contender) play(t *testing.T) (report traffic.Report, took time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rollout := c.apply(ctx, t)
	check(harness.Wait(ctx, "all nodes to serve", func() (bool, error) { return rollout.complete(ctx) }))
	front, err := theHarness.Front(ctx, c.ports)
	check(err)
	defer front.Stop()
	sending, err := theHarness.Send(ctx, rate)
	check(err)
	defer sending.Stop()
	check(flows(ctx, sending))
	changed := time.Now()
	check(rollout.change(ctx))
	check(harness.Wait(ctx, "the rollout to end", func() (bool, error) { return rollout.complete(ctx) }))
	took = time.Since(changed)
	for _, n := range theHarness.Nodes() {
		check(front.WaitUp(ctx, n.Name()))
	}
	check(flows(ctx, sending))
	report, err = sending.Stop()
	check(err)
	c.judge(t, report)
	return report, took
}

// judge fails the test where the contender lost what it should not, or nothing was rolled out.
func (c contender) judge(t *testing.T, report traffic.Report) {
	t.Helper()
	if report.ByVersion[comparedVersion] == 0 {
		t.Errorf("nobody was answered by the new template: %v", report.ByVersion)
	}
	switch {
	case c.loses == nothing:
		losesNothing(t, report)
	case c.loses == something && report.Failed == 0:
		t.Errorf("it lost nothing of %d requests, so that the comparison proves nothing", report.Requests)
	default:
		t.Logf("%d of %d requests failed: %v", report.Failed, report.Requests, report.ByKind)
	}
}

// flows waits until requests of two seconds were answered.
func flows(ctx context.Context, sending *traffic.Process) error {
	begun := sending.Snapshot().Requests
	return harness.Wait(ctx, "requests to be answered", func() (bool, error) {
		return sending.Snapshot().Requests >= begun+2*rate, nil
	})
}

// rolledOut is what changes a template, and tells whether all nodes serve with the present one.
type rolledOut struct {
	change   func(context.Context) error
	complete func(context.Context) (bool, error)
}

// apply applies the contender to a namespace of its own.
func (c contender) apply(ctx context.Context, t *testing.T) rolledOut {
	t.Helper()
	manifest, err := theHarness.Example(c.example)
	if err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: fmt.Sprintf("e2e-%d", time.Now().UnixNano()), Name: manifest.Kind(v1alpha1.Kind.Kind).GetName()}
	if err := theHarness.MakeNamespace(ctx, key.Namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scenario{}.close(t, key.Namespace) })
	if c.native != nil {
		if err := c.convert(manifest); err != nil {
			t.Fatal(err)
		}
	}
	if err := theHarness.Apply(ctx, key.Namespace, manifest); err != nil {
		t.Fatal(err)
	}
	if c.native != nil {
		return rolloutOfDaemonSet(key)
	}
	return rolloutOfFleet(&harness.Fleet{Harness: theHarness, Key: key})
}

// convert puts a DaemonSet in the place of the manifest's IngressDaemonSet, to which its Service leads.
func (c contender) convert(manifest harness.Manifest) error {
	object := manifest.Kind(v1alpha1.Kind.Kind)
	set := &v1alpha1.IngressDaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, set); err != nil {
		return err
	}
	template := set.Spec.Template
	template.Spec.NodeSelector = set.Spec.NodeSelector
	native := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: set.Name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType},
		},
	}
	c.native(native)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(native)
	if err != nil {
		return err
	}
	object.Object = content
	if service := manifest.Kind("Service"); service != nil {
		return unstructured.SetNestedStringMap(service.Object, template.Labels, "spec", "selector")
	}
	return nil
}

func rolloutOfFleet(fleet *harness.Fleet) rolledOut {
	return rolledOut{
		change: func(ctx context.Context) error { return fleet.Change(ctx, harness.SetVersion(comparedVersion)) },
		complete: func(ctx context.Context) (bool, error) {
			set, err := fleet.Set(ctx)
			return err == nil && harness.Complete(set.Generation, set.Status), err
		},
	}
}

func rolloutOfDaemonSet(key types.NamespacedName) rolledOut {
	return rolledOut{
		change: func(ctx context.Context) error {
			set := &appsv1.DaemonSet{}
			if err := theHarness.Get(ctx, key, set); err != nil {
				return err
			}
			before := set.DeepCopy()
			env := set.Spec.Template.Spec.Containers[0].Env
			for i := range env {
				if env[i].Name == "VERSION" {
					env[i].Value = comparedVersion
				}
			}
			return theHarness.Patch(ctx, set, client.MergeFrom(before))
		},
		complete: func(ctx context.Context) (bool, error) {
			set, pods := &appsv1.DaemonSet{}, &corev1.PodList{}
			if err := theHarness.Get(ctx, key, set); err != nil {
				return false, err
			}
			err := theHarness.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels))
			s := set.Status
			// A pod whose hook sleeps counts neither as unavailable nor as old.
			return s.ObservedGeneration == set.Generation && s.DesiredNumberScheduled == nodes && len(pods.Items) == nodes &&
				s.UpdatedNumberScheduled == nodes && s.NumberAvailable == nodes, err
		},
	}
}
