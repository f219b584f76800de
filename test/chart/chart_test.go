// Package chart tests the Helm chart with the real helm, built from its module.
package chart

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata")

const (
	root   = "../.."
	folder = root + "/charts/ingress-daemonset-controller"
)

// run runs helm and gives what it printed, or its error with what it complained of.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := helm.Command(t.Context(), root, args...)
	// Nothing of the user's own helm.
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, &stderr, &stdout)
	}
	return stdout.String(), nil
}

func template(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, append([]string{"template", "release", folder, "--namespace", "ingress-daemonset-system"}, args...)...)
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

// TestSameAsKustomize: the chart with its default values installs what
// config/default does, but for the namespace, which helm makes where it is told to.
func TestSameAsKustomize(t *testing.T) {
	chart := objects(t, strings.NewReader(template(t, "--include-crds")))
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
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for name, object := range objects(t, bytes.NewReader(content)) {
				config[name] = object
			}
		}
	}
	delete(config, "Namespace ingress-daemonset-system")
	if diff := cmp.Diff(config, chart); diff != "" {
		t.Errorf("(-config/default +chart)\n%s", diff)
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

// TestValues renders the chart with values of every kind.
func TestValues(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	everything := map[string]any{
		"image":            map[string]any{"repository": "registry.example/ids", "tag": "v1.2.3", "pullPolicy": "Always"},
		"imagePullSecrets": []string{"registry"}, "replicas": 3, "verbosity": 2, "extraArgs": []string{"--kube-api-qps=100"},
		"priorityClassName": "", "nodeSelector": map[string]string{"role": "infra"}, "tolerations": []any{},
		"podAnnotations":    map[string]string{"prometheus.io/scrape": "true"},
		"admissionPolicies": map[string]any{"enabled": false}, "podDisruptionBudget": map[string]any{"enabled": false},
		"detachAnnotations": []string{"example.com/detach=example.com/detached-at", "example.com/exclude"},
		"loadBalancers": map[string]any{
			"requireGroupTag":    true,
			"detachGroupsTagged": map[string]string{"team": "ingress", "kubernetes.io/cluster/one": "owned"},
			"assumeRoles":        []any{map[string]string{"arn": "arn:aws:iam::123456789012:role/ingress", "externalID": "cluster-one"}},
		},
		"analysis": map[string]any{
			"hosts": []string{"prometheus.monitoring:9090", "*.example.com"}, "providersSecret": "mimir",
			"providers": []any{map[string]any{
				"name": "mimir", "address": "https://mimir.example.com/prometheus", "bearerTokenFile": "/etc/analysis/secret/token",
				"caFile": "/etc/analysis/secret/ca.crt", "headers": map[string]string{"X-Scope-OrgID": "ingress"},
			}},
		},
		"metrics":       map[string]any{"secure": true},
		"networkPolicy": map[string]any{"enabled": false}, "prometheusRule": map[string]any{"enabled": true},
	}
	content, err := sigsyaml.Marshal(everything)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(values, content, 0o644); err != nil {
		t.Fatal(err)
	}
	got := template(t, "--values", values)
	golden.Equal(t, *update, filepath.Join("testdata", "everything.yaml"), got)
}

// TestWrongValues are refused with what to change.
func TestWrongValues(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=many":                    "got string, want integer",
		"image.pullPolicy=Perhaps":         "value must be one of 'Always', 'IfNotPresent', 'Never'",
		"imagePullPolicy=Always":           "additional properties 'imagePullPolicy' not allowed",
		"verbosity=9":                      "maximum: got 9, want 2",
		"analysis.hosts=one":               "got string, want array",
		"detachAnnotations=one":            "got string, want array",
		"analysis.providers[0].name=mimir": "missing property 'address'",
		"loadBalancers.assumeRoles[0].arn=arn:aws:iam::123456789012:user/a": "does not match pattern",
	} {
		if _, err := run(t, "template", "release", folder, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
}
