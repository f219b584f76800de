package objects

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata/*.out.yaml")

const (
	exampleNode  = "ip-10-0-1-17"
	exampleImage = "ghcr.io/mumoshu/ingress-daemonset-controller:v0.2.0"
)

// TestExamples holds what is made of the manifests in testdata/NAME.in.yaml, for one node, against
// testdata/NAME.out.yaml. Read a pair of files to learn what becomes of a field.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, in := range files {
		name := strings.TrimSuffix(in, ".in.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			golden.Equal(t, *update, name+".out.yaml", readExample(t, in).rendered(t, filepath.Base(in)))
		})
	}
}

// example is what a user wrote.
type example struct {
	// sets are the IngressDaemonSet: as it was before, where there are two, and as it is now.
	sets    []*v1alpha1.IngressDaemonSet
	service *corev1.Service
}

// readExample reads manifests as strictly as the API server does with field validation Strict.
func readExample(t *testing.T, file string) example {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var e example
	for manifest := range strings.SplitSeq(string(content), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(manifest), &kind); err != nil {
			t.Fatal(err)
		}
		var object any
		switch kind.Kind {
		case v1alpha1.Kind.Kind:
			set := &v1alpha1.IngressDaemonSet{}
			e.sets, object = append(e.sets, set), set
		case "Service":
			e.service = &corev1.Service{}
			object = e.service
		default:
			t.Fatalf("%s: an unknown kind: %q", file, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(manifest), object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	for _, set := range e.sets {
		set.UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	}
	return e
}

// now is the IngressDaemonSet as it is.
func (e example) now() *v1alpha1.IngressDaemonSet { return e.sets[len(e.sets)-1] }

// document is an object, and what it is in a sentence.
type document struct {
	about  string
	object any
}

// made is all that is made for the node.
func (e example) made(t *testing.T) []document {
	t.Helper()
	set := e.now()
	out := []document{{"The Deployment of the node.", e.deployment(set)}}
	if set.Spec.DrainHook != nil {
		record, err := ControllerRevision(set, Revision(Template(set)), 1)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, document{"The record of the template, and what of it was added to the user's.", record})
	}
	for _, port := range set.Spec.HealthCheckNodePorts {
		out = append(out, document{fmt.Sprintf("The health checkers that answer on port %d of every node.", port), Checker(set, port, exampleImage)})
	}
	if len(set.Spec.HealthCheckNodePorts) > 0 {
		if account := CheckerServiceAccount(set); account != nil {
			out = append(out, document{"The account of the health checkers.", account})
		}
		out = append(out, document{"What they may read.", CheckerRoleBinding(set)})
	}
	return append(out, e.published()...)
}

func (e example) deployment(set *v1alpha1.IngressDaemonSet) any {
	return Deployment(set, exampleNode, DeploymentName(set, exampleNode, false), podsOf(set))
}

// podsOf are those of the spec.
func podsOf(set *v1alpha1.IngressDaemonSet) Pods {
	template := Template(set)
	return Pods{
		Revision: Revision(template), Template: template, Replicas: set.Spec.Pods(), PerNode: set.Spec.Pods(),
		UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// published are the EndpointSlices of the node, while it takes traffic and while it is under update.
func (e example) published() (out []document) {
	if e.service == nil {
		return nil
	}
	p := Publication{Set: e.now(), Service: e.service, Templates: map[string]*corev1.PodSpec{}}
	var pods []*corev1.Pod
	for _, set := range e.sets {
		p.Templates[Revision(Template(set))] = &set.Spec.Template.Spec
		pods = append(pods, running(set, len(pods))...)
	}
	for i, about := range []string{"The pods of the node, published.", "The same while the node is under update."} {
		for _, slice := range p.EndpointSlices(exampleNode, pods, i == 1) {
			out = append(out, document{about, slice})
		}
	}
	return out
}

// running are the pods of a Deployment as the Deployment controller and the kubelet make them, when there
// are some others already.
func running(set *v1alpha1.IngressDaemonSet, others int) (pods []*corev1.Pod) {
	p := podsOf(set)
	template := podTemplate(set, exampleNode, p)
	for i := range int(p.Replicas) {
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = set.Namespace, fmt.Sprintf("%s-%s-%d", DeploymentName(set, exampleNode, false), p.Revision, i)
		pod.UID = types.UID("uid-of-" + pod.Name)
		pod.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.1.0.%d", others+i+1)}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pods = append(pods, pod)
	}
	return pods
}

// rendered are all documents as YAML.
func (e example) rendered(t *testing.T, of string) string {
	t.Helper()
	out := fmt.Sprintf("# Made of %s for node %s.\n", of, exampleNode)
	for _, d := range e.made(t) {
		data, err := json.Marshal(d.object)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "status")
		dropNulls(fields)
		text, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		out += "---\n# " + d.about + "\n" + string(text)
	}
	return out
}

// dropNulls drops what types without a value are encoded to.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if inner == nil {
				delete(v, key)
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range v {
			dropNulls(inner)
		}
	}
}
