package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("node.", 20) + "example"
	for name, want := range map[string]string{
		"":                      "",
		"node-1.example":        "node-1.example",
		strings.Repeat("a", 63): strings.Repeat("a", 63),
		strings.Repeat("a", 64): strings.Repeat("a", 52) + "-ffe054fe7a",
		long:                    long[:52] + "-6381969d07",
	} {
		if got := v1alpha1.LabelValue(name); got != want {
			t.Errorf("LabelValue(%q) is %q, want %q", name, got, want)
		}
	}
}

func TestLabelValueOfAnyNodeNameIsValidAndItsOwn(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if errs := validation.IsValidLabelValue(v1alpha1.LabelValue(a)); len(errs) > 0 {
			t.Fatalf("LabelValue(%q) is %q: %v", a, v1alpha1.LabelValue(a), errs)
		}
		if a != b && v1alpha1.LabelValue(a) == v1alpha1.LabelValue(b) {
			t.Fatalf("%q and %q share a label value", a, b)
		}
	})
}

func TestReadinessGatesAreConditionTypes(t *testing.T) {
	for name, want := range map[string]string{
		"proxy":                 "target-health.ingressdaemonsets.mumoshu.github.io/proxy",
		strings.Repeat("a", 64): "target-health.ingressdaemonsets.mumoshu.github.io/" + strings.Repeat("a", 52) + "-ffe054fe7a",
	} {
		got := v1alpha1.ReadinessGate(name)
		if errs := validation.IsQualifiedName(got); got != want || len(errs) > 0 {
			t.Errorf("ReadinessGate(%q) is %q, want %q; %v", name, got, want, errs)
		}
	}
}
