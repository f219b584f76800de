package v1alpha1_test

import (
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// TestMarkOf reads the mark under the key on record, else under the default one, else
// under one that is known; an empty mark is one.
func TestMarkOf(t *testing.T) {
	const recorded = v1alpha1.AnnotationMarkKey
	for name, c := range map[string]struct {
		annotations map[string]string
		value       string
		present     bool
	}{
		"none":            {nil, "", false},
		"default":         {map[string]string{v1alpha1.DefaultMarkKey: "a"}, "a", true},
		"empty":           {map[string]string{v1alpha1.DefaultMarkKey: ""}, "", true},
		"recorded":        {map[string]string{recorded: "k", "k": "b", v1alpha1.DefaultMarkKey: "a"}, "b", true},
		"recorded, empty": {map[string]string{recorded: "k", "k": ""}, "", true},
		"only a record":   {map[string]string{recorded: "k", v1alpha1.DefaultMarkKey: "a"}, "", false},
		"a known key":     {map[string]string{"known": "c"}, "c", true},
		"a known record":  {map[string]string{recorded: "k", "known": "c"}, "", false},
		"an empty record": {map[string]string{recorded: "", v1alpha1.DefaultMarkKey: "a"}, "a", true},
	} {
		if value, present := v1alpha1.MarkOf(c.annotations, "", "known"); value != c.value || present != c.present {
			t.Errorf("%s: %q, %t", name, value, present)
		}
	}
}

// TestHoldOf reads no hold where the value is empty, or somebody else's.
func TestHoldOf(t *testing.T) {
	for value, held := range map[string]bool{
		"": false, "{": false, "by me": false, `{"attempts": "two"}`: false, "{}": true, `{"attempts": 2}`: true,
	} {
		if hold := v1alpha1.HoldOf(map[string]string{v1alpha1.AnnotationHold: value}); (hold != nil) != held {
			t.Errorf("%q is read as %+v", value, hold)
		}
	}
	if hold := v1alpha1.HoldOf(nil); hold != nil {
		t.Errorf("no annotation is read as %+v", hold)
	}
}
