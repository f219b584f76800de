package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// granting are the roles with a verb that admission asks for, and what it is.
var granting = map[string]string{
	"ingress-daemonset-detacher": "detach", "ingress-daemonset-attacher": "attach", "ingress-daemonset-group-owner": "own",
}

// TestDefaultsGrantNothing: with default values admission asks, and nobody has a verb that it
// asks for: no role but those which are there to grant one has any, and those are bound to
// nobody and part of no other.
func TestDefaultsGrantNothing(t *testing.T) {
	all := objects(t, strings.NewReader(template(t)))
	for _, policy := range []string{"tenants", "status"} {
		name := policy + ".ingressdaemonsets.mumoshu.github.io"
		binding := unstructured.Unstructured{Object: all["ValidatingAdmissionPolicyBinding "+name]}
		actions, _, _ := unstructured.NestedStringSlice(binding.Object, "spec", "validationActions")
		if all["ValidatingAdmissionPolicy "+name] == nil || !slices.Equal(actions, []string{"Deny"}) {
			t.Errorf("%s is not there, or does not deny: %v", name, actions)
		}
	}
	found := map[string]bool{}
	for _, object := range all {
		o := unstructured.Unstructured{Object: object}
		switch o.GetKind() {
		case "ClusterRole", "Role":
			verbs := verbsOfOurs(t, o)
			if want := granting[o.GetName()]; strings.Join(verbs, " ") != want {
				t.Errorf("%s %s has the verbs %q, want %q", o.GetKind(), o.GetName(), verbs, want)
			}
			if _, aggregates := object["aggregationRule"]; aggregates || len(verbs) > 0 && isPart(o) {
				t.Errorf("%s %s takes part in others: %v", o.GetKind(), o.GetName(), o.GetLabels())
			}
			if len(verbs) > 0 {
				found[o.GetName()] = true
			}
		case "ClusterRoleBinding", "RoleBinding":
			role, _, _ := unstructured.NestedString(object, "roleRef", "name")
			if granting[role] != "" || !strings.HasPrefix(role, "ingress-daemonset-controller") {
				t.Errorf("%s %s grants %s", o.GetKind(), o.GetName(), role)
			}
		}
	}
	if len(found) != len(granting) {
		t.Errorf("found are %v, not all of %v", slices.Collect(maps.Keys(found)), granting)
	}
}

// isPart reports whether a role is made a part of others by its labels.
func isPart(role unstructured.Unstructured) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(role.GetLabels())), func(key string) bool {
		return strings.HasPrefix(key, "rbac.authorization.k8s.io/")
	})
}

// verbsOfOurs are those of a role that Kubernetes has no meaning for, and all that stands for any.
func verbsOfOurs(t *testing.T, role unstructured.Unstructured) (out []string) {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		for _, field := range []string{"apiGroups", "resources", "verbs"} {
			words, _, err := unstructured.NestedStringSlice(rule.(map[string]any), field)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range words {
				if word == "*" || slices.Contains([]string{"detach", "attach", "own", "assume"}, word) {
					out = append(out, word)
				}
			}
		}
	}
	return out
}
