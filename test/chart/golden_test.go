package chart

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cases are what is rendered: the default values; and with the values of a file in testdata everything
// that can be set, what can be chosen instead, and as little as can be.
var cases = []string{"default", "everything", "alternatives", "least"}

func valuesOf(name string) string { return filepath.Join("testdata", name+".values.yaml") }

// TestRendered compares what the chart installs with files that people read.
func TestRendered(t *testing.T) {
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			var args []string
			if name != "default" {
				args = []string{"--values", valuesOf(name)}
			}
			golden.Equal(t, *update, filepath.Join("testdata", name+".yaml"), withoutSpecs(template(t, args...)))
		})
	}
}

// TestNamespaceOfDigits: a namespace that reads as a number is a text wherever it stands, in everything that can be
// installed.
func TestNamespaceOfDigits(t *testing.T) {
	const digits = "123"
	named := 0
	var look func(path string, value any)
	look = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, below := range value {
				look(path+"."+key, below)
			}
		case []any:
			for _, below := range value {
				look(path, below)
			}
		case string:
			if value == digits {
				named++
			}
		default:
			if fmt.Sprint(value) == digits {
				t.Errorf("%s is a %T", path, value)
			}
		}
	}
	for name, object := range objects(t, strings.NewReader(template(t, "--namespace", digits, "--values", valuesOf("everything"), "--set", "dashboard.namespace="))) {
		look(name, object)
	}
	if named < 15 {
		t.Errorf("the namespace stands in %d places", named)
	}
}

// withoutSpecs leaves out what no value changes, and what other tests compare with config/: the schemas of
// CRDs, the rules of admission, alerts, and the dashboard.
func withoutSpecs(manifests string) string {
	const divider = "\n---\n"
	documents := strings.Split(manifests, divider)
	for i, document := range documents {
		for _, kind := range []string{"CustomResourceDefinition", "ValidatingAdmissionPolicy", "PrometheusRule"} {
			if strings.Contains(document, "\nkind: "+kind+"\n") {
				documents[i], _, _ = strings.Cut(document, "\nspec:\n")
			}
		}
		if before, _, found := strings.Cut(document, "\n    {\n"); found && strings.Contains(document, dashboardKey) {
			documents[i] = before
		}
	}
	return strings.Join(documents, divider)
}

// dashboardKey is the key of the dashboard in its ConfigMap.
const dashboardKey = "ingressdaemonsets.json"

// TestMonitoring: alerts and dashboard are those of config/monitoring.
func TestMonitoring(t *testing.T) {
	made := objects(t, strings.NewReader(template(t, "--set", "prometheusRule.enabled=true,dashboard.enabled=true")))
	alerts := objects(t, bytes.NewReader(readFile(t, filepath.Join(root, "config", "monitoring", "alerts.yaml"))))
	const rule = "PrometheusRule ingress-daemonset-controller"
	if diff := cmp.Diff(alerts[rule]["spec"], made[rule]["spec"]); diff != "" {
		t.Errorf("alerts (-config +chart)\n%s", diff)
	}
	shown, _, err := unstructured.NestedString(made["ConfigMap ingress-daemonset-controller-dashboard"], "data", dashboardKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(readFile(t, filepath.Join(root, "config", "monitoring", "dashboard.json"))), shown); diff != "" {
		t.Errorf("dashboard (-config +chart)\n%s", diff)
	}
}
