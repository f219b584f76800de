package health

import (
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kustomization is the example that users copy.
const kustomization = "../../examples/gitops/flux-kustomization.yaml"

// expressions are those of a kind.
type expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// flux is what Flux makes of an object by the expressions: in the order that its documentation gives, and
// before all of them by the generation that was observed (fluxcd/pkg, runtime/cel/status_evaluator.go).
func flux(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if err != nil {
		t.Fatal(err)
	}
	if found && observed != object.GetGeneration() {
		return "InProgress"
	}
	e := expressionsOf(t, object)
	for _, one := range []struct{ expression, status string }{{e.InProgress, "InProgress"}, {e.Failed, "Failed"}, {e.Current, "Current"}} {
		if evaluate(t, one.expression, object) {
			return one.status
		}
	}
	return "InProgress"
}

func expressionsOf(t *testing.T, object *unstructured.Unstructured) expressions {
	t.Helper()
	content, err := os.ReadFile(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Spec struct {
			HealthCheckExprs []expressions `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &example); err != nil {
		t.Fatal(err)
	}
	for _, e := range example.Spec.HealthCheckExprs {
		if e.APIVersion == object.GetAPIVersion() && e.Kind == object.GetKind() {
			return e
		}
	}
	t.Fatalf("%s has no expressions for %s", kustomization, object.GroupVersionKind())
	return expressions{}
}

// evaluate evaluates an expression as Flux does: it is parsed and not checked against types, with these
// libraries (fluxcd/pkg, runtime/cel/expression.go).
func evaluate(t *testing.T, expression string, object *unstructured.Unstructured) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders())
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(parsed, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	value, _, err := program.Eval(object.Object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value == types.True
}
