package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// leaves are the values that have none below them, by their paths.
func leaves(t *testing.T, file string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := sigsyaml.Unmarshal(readFile(t, file), &values); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	var walk func(path string, values map[string]any)
	walk = func(path string, values map[string]any) {
		for name, value := range values {
			below, isMap := value.(map[string]any)
			if isMap && len(below) > 0 {
				walk(path+name+".", below)
			} else {
				out[path+name] = value
			}
		}
	}
	walk("", values)
	return out
}

func standardValues(t *testing.T) map[string]any {
	t.Helper()
	return leaves(t, filepath.Join(folder, "values.yaml"))
}

// TestEverythingIsSet: what is rendered in TestRendered shows what each value does.
func TestEverythingIsSet(t *testing.T) {
	given := map[string][]any{}
	for _, name := range cases[1:] {
		for path, value := range leaves(t, valuesOf(name)) {
			given[path] = append(given[path], value)
		}
	}
	for path, standard := range standardValues(t) {
		differs := slices.ContainsFunc(slices.Collect(maps.Keys(given)), func(set string) bool {
			within := set == path || strings.HasPrefix(set, path+".")
			return within && slices.ContainsFunc(given[set], func(value any) bool { return !reflect.DeepEqual(value, standard) })
		})
		if !differs {
			t.Errorf("%s has its default in all of %v", path, cases)
		}
	}
}

// schema is a part of values.schema.json.
type schema struct {
	Ref                  string             `json:"$ref"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
	Definitions          map[string]*schema `json:"definitions"`
}

// TestSchemaIsWhole: the schema has the values that there are and no others, and refuses others.
func TestSchemaIsWhole(t *testing.T) {
	var whole schema
	if err := json.Unmarshal(readFile(t, filepath.Join(folder, "values.schema.json")), &whole); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := sigsyaml.Unmarshal(readFile(t, filepath.Join(folder, "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	// Helm gives it to all charts.
	delete(whole.Properties, "global")
	var compare func(path string, s *schema, values map[string]any)
	compare = func(path string, s *schema, values map[string]any) {
		if s.AdditionalProperties != false {
			t.Errorf("%s takes values of any name", path)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(s.Properties))); diff != "" {
			t.Errorf("%s (-values.yaml +values.schema.json)\n%s", path, diff)
		}
		for name, below := range s.Properties {
			if name, refers := strings.CutPrefix(below.Ref, "#/definitions/"); refers {
				below = whole.Definitions[name]
			}
			if parts, isMap := values[name].(map[string]any); isMap && below != nil && below.Properties != nil {
				compare(path+name+".", below, parts)
			}
		}
	}
	compare("values.", &whole, values)
}

var valueRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]*)` \\|")

// TestReadmeOfValues finds each value in the chart's README, with its default, and no other.
func TestReadmeOfValues(t *testing.T) {
	want := map[string]string{}
	for path, value := range standardValues(t) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		want[path] = string(text)
	}
	got := map[string]string{}
	for _, row := range valueRow.FindAllStringSubmatch(string(readFile(t, filepath.Join(folder, "README.md"))), -1) {
		got[row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run make generate (-values.yaml +README.md)\n%s", diff)
	}
}

// TestValuesThatSayNothing: null unsets a value, as everywhere in Helm, and 0 does not.
func TestValuesThatSayNothing(t *testing.T) {
	for set, want := range map[string]map[string]any{
		"podDisruptionBudget.maxUnavailable=null":                                       {"maxUnavailable": float64(1)},
		"podDisruptionBudget.maxUnavailable=null,podDisruptionBudget.minAvailable=null": {"maxUnavailable": float64(1)},
		"podDisruptionBudget.maxUnavailable=null,podDisruptionBudget.minAvailable=1":    {"minAvailable": float64(1)},
		"podDisruptionBudget.minAvailable=0":                                            {"minAvailable": float64(0)},
		"podDisruptionBudget.minAvailable=null,podDisruptionBudget.maxUnavailable=50%":  {"maxUnavailable": "50%"},
		"podDisruptionBudget.maxUnavailable=0,podDisruptionBudget.minAvailable=null":    {"maxUnavailable": float64(0)},
	} {
		budget := objects(t, strings.NewReader(template(t, "--set", set)))["PodDisruptionBudget ingress-daemonset-controller"]
		spec := budget["spec"].(map[string]any)
		delete(spec, "selector")
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("%s (-want +got)\n%s", set, diff)
		}
	}
}

// TestImages: which images run, by what of each is named. Health checkers have the controller's, as far as
// nothing else is named for them.
func TestImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	usual := "mumoshu/ingress-daemonset-controller"
	for set, want := range map[string][2]string{
		"image.tag=v1":                        {usual + ":v1", usual + ":v1"},
		"image.digest=" + digest:              {usual + "@" + digest, usual + "@" + digest},
		"image.tag=v1,image.digest=" + digest: {usual + ":v1@" + digest, usual + ":v1@" + digest},
		"image.repository=one,image.tag=v1,healthChecker.image.tag=v2":                             {"one:v1", "one:v2"},
		"image.tag=v1,healthChecker.image.repository=other":                                        {usual + ":v1", "other:v1"},
		"healthChecker.image.repository=other":                                                     {usual + ":latest", "other:latest"},
		"image.tag=v1,healthChecker.image.repository=other,healthChecker.image.digest=" + digest:   {usual + ":v1", "other@" + digest},
		"image.repository=one,image.tag=v1,image.digest=" + digest + ",healthChecker.image.tag=v2": {"one:v1@" + digest, "one:v2"},
	} {
		deployment := objects(t, strings.NewReader(template(t, "--set", set)))["Deployment ingress-daemonset-controller"]
		containers, _, _ := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
		controller := containers[0].(map[string]any)
		checker := controller["env"].([]any)[0].(map[string]any)
		if got := [2]string{controller["image"].(string), checker["value"].(string)}; got != want {
			t.Errorf("%s: %v, want %v", set, got, want)
		}
	}
}

// TestWrongValues are refused with what to change.
func TestWrongValues(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"--set", "replicas=many", "got string, want integer"},
		{"--set", "image.pullPolicy=Perhaps", "value must be one of 'Always', 'IfNotPresent', 'Never'"},
		{"--set", "imagePullPolicy=Always", "additional properties 'imagePullPolicy' not allowed"},
		{"--set", "verbosity=9", "maximum: got 9, want 2"},
		{"--set", "analysis.hosts=one", "got string, want array"},
		{"--set", "detachAnnotations=one", "got string, want array"},
		{"--set", "analysis.providers[0].name=mimir", "missing property 'address'"},
		{"--set", "loadBalancers.assumeRoles[0].arn=arn:aws:iam::123456789012:user/a", "does not match pattern"},
		{"--set", "image.digest=sha256:12", "does not match pattern"},
		{"--set", "image.repository=registry.example/ids@sha256:12", "write that into image.digest"},
		{"--set", "image.repository=registry.example/ids:v1", "write that into image.tag"},
		{"--set", "healthChecker.image.repository=registry.example/ids:v1", "write that into healthChecker.image.tag"},
		{"--set", "fullnameOverride=Upper_Case", "does not match pattern"},
		{"--set", "commonLabels.a=1", "got number, want string"},
		{"--set-string", `podLabels.app\.kubernetes\.io/name=other`, "set nameOverride"},
		{"--set-string", `commonLabels.app\.kubernetes\.io/name=other`, "set nameOverride"},
		{"--set", "imagePullSecrets[0].secret=registry", "missing property 'name'"},
		{"--set", "serviceAccount.create=false", "set serviceAccount.name to the account that is there"},
		{"--set", "env[0].name=REPLICAS,env[0].value=2", "got number, want string"},
		{"--set", "env[0].name=HEALTHCHECKER_IMAGE,env[0].value=a", "set healthChecker.image"},
		{"--set", "env[0].name=POD_NAMESPACE,env[0].value=a", "leave it out"},
		{"--set", "extraVolumes[0].name=assume-roles", "give it another name"},
		{"--set", "extraVolumes[0].name=analysis-secret", "give it another name"},
		{"--set", "extraVolumes[0].name=analysis-providers", "give it another name"},
		{"--set", "fullnameOverride=" + strings.Repeat("a", 51), "maxLength: got 51, want 50"},
		{"--set", "extraVolumeMounts[0].name=webhook", "missing property 'mountPath'"},
		{"--set", "podMonitor.enabled=true,serviceMonitor.enabled=true", "set one"},
		{"--set", "podMonitor.interval=often", "does not match pattern"},
		{"--set", "metrics.secure=true,serviceMonitor.enabled=true", "set serviceMonitor.authorization to what Prometheus is to show"},
		{"--set", "podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=0", "are both set: set one"},
		{"--set", "podDisruptionBudget.maxUnavailable=half", "does not match pattern"},
		{"--set", "topologySpreadConstraints[0].topologyKey=zone", "missing properties 'maxSkew', 'whenUnsatisfiable'"},
		{"--set", "crds.keep=perhaps", "got string, want boolean"},
	} {
		if _, err := run(t, "template", instance, folder, c.flag, c.value); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s %s: %v, want %q", c.flag, c.value, err, c.want)
		}
	}
}
