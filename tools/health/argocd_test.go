package health

import (
	"os"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// configMap is the example that users copy.
	configMap = "../../examples/gitops/argocd-cm.yaml"
	// pending is what Argo CD says of any object that is being deleted, without asking a health check
	// (argoproj/gitops-engine, pkg/health/health.go).
	pending = "Progressing, by its deletion"
)

// argo is what Argo CD makes of an object by the health check of its kind, and why.
func argo(t *testing.T, object *unstructured.Unstructured) (health, message string) {
	t.Helper()
	if object.GetDeletionTimestamp() != nil {
		return pending, ""
	}
	table, ok := run(t, checkOf(t, object), object).(*lua.LTable)
	if !ok {
		t.Fatal("the health check gives no table")
	}
	health = lua.LVAsString(table.RawGetString("status"))
	switch health {
	case "Healthy", "Progressing", "Degraded", "Suspended":
	default:
		t.Fatalf("Argo CD knows no health %q", health)
	}
	return health, lua.LVAsString(table.RawGetString("message"))
}

func checkOf(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	content, err := os.ReadFile(configMap)
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(content, &example); err != nil {
		t.Fatal(err)
	}
	key := "resource.customizations.health." + object.GroupVersionKind().Group + "_" + object.GetKind()
	if example.Data[key] == "" {
		t.Fatalf("%s has no %s", configMap, key)
	}
	return example.Data[key]
}

// run runs a health check with the libraries that Argo CD opens for the checks of its users, but for that
// of the operating system (argoproj/argo-cd, util/lua/lua.go).
func run(t *testing.T, script string, object *unstructured.Unstructured) lua.LValue {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(library.open), Protect: true}, lua.LString(library.name)); err != nil {
			t.Fatal(err)
		}
	}
	l.SetGlobal("obj", valueOf(l, object.Object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	return l.Get(-1)
}

// valueOf is a value of JSON in Lua.
func valueOf(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		list := l.NewTable()
		for _, one := range value {
			list.Append(valueOf(l, one))
		}
		return list
	case map[string]any:
		table := l.NewTable()
		for key, one := range value {
			table.RawSetString(key, valueOf(l, one))
		}
		return table
	}
	return lua.LNil
}
