package analysis

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// TestConditions has conditions of before, and expressions of CEL.
func TestConditions(t *testing.T) {
	for text, c := range map[string]struct{ yes, no []float64 }{
		"< 0.01":                              {[]float64{0, -1, math.Inf(-1)}, []float64{0.01, 1, math.NaN()}},
		"<= 5e-1":                             {[]float64{0.5}, []float64{0.6, math.NaN()}},
		"!= 0":                                {[]float64{1, math.NaN()}, []float64{0}},
		"== 99999999999999999999":             {[]float64{1e20}, []float64{0}},
		"value < 0.01":                        {[]float64{0, -1, math.Inf(-1)}, []float64{0.01, 1}},
		"value == 0":                          {[]float64{0}, []float64{1, 0.5}},
		"value >= 1 && value < 2.5":           {[]float64{1, 2}, []float64{0.9, 2.5}},
		"value < 1 || value > 100":            {[]float64{0, 101}, []float64{1, 100}},
		"!(value > 1)":                        {[]float64{1}, []float64{2}},
		"value in [200.0, 204.0]":             {[]float64{204}, []float64{500}},
		"value < 1 ? value > -1 : value == 7": {[]float64{0, 7}, []float64{-1, 6}},
		"value != value || value < 1":         {[]float64{math.NaN(), 0}, []float64{1}},
	} {
		passes, err := condition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for want, values := range map[bool][]float64{true: c.yes, false: c.no} {
			for _, v := range values {
				if got, err := passes(t.Context(), v); got != want || err != nil {
					t.Errorf("%g %s: %t, %v", v, text, got, err)
				}
			}
		}
	}
}

// TestConditionsThatAreNone say what is wrong with them.
func TestConditionsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":            "is neither a comparison and a number",
		"about 1":     "is neither a comparison and a number",
		"<":           "is neither a comparison and a number",
		"< 1 || > 2":  "is neither a comparison and a number",
		"result < 1":  "undeclared reference to 'result'",
		"value":       "gives dyn, and not whether value is as it should be",
		"value + 1.0": "and not whether value is as it should be",
		"'a'":         "gives string",
		// What it costs to compile a pattern nobody counts.
		`"".matches(string(value)+"((\\pL{10}){10}){10}")`:           "undeclared reference to 'matches'",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100): "is neither a comparison and a number",
	} {
		if err := Check(prometheusCheck(text), rollout.Wave{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, check := range []v1alpha1.AnalysisCheck{prometheusCheck("< 1"), {HTTP: &v1alpha1.HTTPCheck{}}} {
		if err := Check(check, rollout.Wave{}); err != nil {
			t.Errorf("%+v: %v", check, err)
		}
	}
	passes, err := condition("value.size() > 1")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := passes(t.Context(), 1); ok || err == nil || !strings.Contains(err.Error(), "no such overload") {
		t.Errorf("%t, %v", ok, err)
	}
}

func prometheusCheck(success string) v1alpha1.AnalysisCheck {
	return v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Success: success}}
}

// TestConditionOfManyValuesIsBounded ends one that costs too much for all values together, each of
// which would be cheap enough.
func TestConditionOfManyValuesIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"value < 0.5 || value > 0.8 && value < 2.0 || value == 3.0 || value == 4.0": "",
		loop(30): "for all values it costs more than 100000: shorten it, or aggregate the values",
	} {
		passes, err := condition(text)
		for range mostValues {
			if err == nil {
				_, err = passes(t.Context(), 1)
			}
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// loop is an expression that is evaluated so many times over.
func loop(rounds int) string {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", rounds), ",") + "]"
	return fmt.Sprintf("%s.all(a, %s.all(b, value >= 0.0))", list, list)
}

// TestConditionsAreBounded ends one that costs too much, and one that takes too long.
func TestConditionsAreBounded(t *testing.T) {
	cheap, err := condition(loop(15))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := cheap(t.Context(), 1); !ok || err != nil {
		t.Errorf("a cheap one: %t, %v", ok, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := cheap(over, 1); ok || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("after the deadline: %t, %v", ok, err)
	}
	dear, err := condition(loop(100))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := dear(t.Context(), 1); ok || err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("a dear one: %t, %v", ok, err)
	}
}
