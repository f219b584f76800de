// Package chart tests the Helm chart with the real helm, built from its module.
package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata")

const (
	root   = "../.."
	folder = root + "/charts/ingress-daemonset-controller"
	// instance is what the tests call a release.
	instance  = "release"
	namespace = "ingress-daemonset-system"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm.Run(t.Context(), root, t.TempDir(), nil, args...)
}

func template(t *testing.T, args ...string) string {
	t.Helper()
	return rendered(t, folder, args...)
}

// rendered is what helm makes of a chart.
func rendered(t *testing.T, chart string, args ...string) string {
	t.Helper()
	out, err := run(t, append([]string{"template", instance, chart, "--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLint(t *testing.T) {
	if out, err := run(t, "lint", "--strict", folder); err != nil {
		t.Error(err, out)
	}
}

// TestKubernetesVersion: an older Kubernetes than the pages say is refused.
func TestKubernetesVersion(t *testing.T) {
	template(t, "--kube-version", "1.31.0")
	if _, err := run(t, "template", instance, folder, "--kube-version", "1.30.14"); err == nil || !strings.Contains(err.Error(), "chart requires kubeVersion: >=1.31.0-0") {
		t.Errorf("Kubernetes 1.30 is not refused: %v", err)
	}
}

// metadata is what Chart.yaml says.
type metadata struct{ Version, AppVersion, Icon string }

func readMetadata(t *testing.T) (m metadata) {
	t.Helper()
	if err := sigsyaml.Unmarshal(readFile(t, filepath.Join(folder, "Chart.yaml")), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestIcon finds the icon where its address says, among the project's files.
func TestIcon(t *testing.T) {
	_, path, found := strings.Cut(readMetadata(t).Icon, "/ingress-daemonset-controller/main/")
	if !found {
		t.Fatalf("%q is no file of the project", readMetadata(t).Icon)
	}
	var image struct {
		XMLName xml.Name
		Title   string `xml:"title"`
	}
	if err := xml.Unmarshal(readFile(t, filepath.Join(root, path)), &image); err != nil {
		t.Fatal(err)
	}
	if image.XMLName.Local != "svg" || image.Title == "" {
		t.Errorf("it is %v, %q, and no picture with a title", image.XMLName, image.Title)
	}
}

// TestSameAsKustomize: the chart with its default values installs what config/default does, with the
// labels that charts have, and but for the namespace, which helm makes where it is told to.
func TestSameAsKustomize(t *testing.T) {
	chart := objects(t, strings.NewReader(template(t)))
	config := map[string]map[string]any{}
	for _, part := range []string{"crd", "policy", "rbac", "controller"} {
		files, err := filepath.Glob(filepath.Join(root, "config", part, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			for name, object := range objects(t, bytes.NewReader(readFile(t, file))) {
				label(t, object, readMetadata(t).AppVersion)
				config[name] = object
			}
		}
	}
	delete(config, "Namespace "+namespace)
	if diff := cmp.Diff(config, chart); diff != "" {
		t.Errorf("(-config/default +chart)\n%s", diff)
	}
}

// label gives an object what the chart adds by default: labels, of a version, and to a CRD that it is kept.
func label(t *testing.T, object map[string]any, version string) {
	t.Helper()
	u := unstructured.Unstructured{Object: object}
	ofPods := map[string]string{
		"app.kubernetes.io/name": "ingress-daemonset-controller", "app.kubernetes.io/instance": instance, "app.kubernetes.io/version": version,
	}
	all := map[string]string{"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "ingress-daemonset-controller-" + readMetadata(t).Version}
	maps.Copy(all, ofPods)
	maps.Copy(all, u.GetLabels())
	u.SetLabels(all)
	switch u.GetKind() {
	case "CustomResourceDefinition":
		annotations := u.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep"
		u.SetAnnotations(annotations)
	case "Deployment":
		if err := unstructured.SetNestedStringMap(object, ofPods, "spec", "template", "metadata", "labels"); err != nil {
			t.Fatal(err)
		}
	}
}

// objects reads manifests, by kind and name.
func objects(t *testing.T, manifests io.Reader) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for decoder := yaml.NewYAMLOrJSONDecoder(manifests, 4096); ; {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object) > 0 {
			u := unstructured.Unstructured{Object: object}
			out[u.GetKind()+" "+u.GetName()] = object
		}
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
