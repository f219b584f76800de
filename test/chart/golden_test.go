package chart

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/golden"
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

// withoutSpecs leaves out what no value changes: the schemas of CRDs and the rules of admission, which
// TestSameAsKustomize compares.
func withoutSpecs(manifests string) string {
	const divider = "\n---\n"
	documents := strings.Split(manifests, divider)
	for i, document := range documents {
		for _, kind := range []string{"CustomResourceDefinition", "ValidatingAdmissionPolicy"} {
			if strings.Contains(document, "\nkind: "+kind+"\n") {
				documents[i], _, _ = strings.Cut(document, "\nspec:\n")
			}
		}
	}
	return strings.Join(documents, divider)
}
