package docs

import (
	"slices"
	"testing"
)

// TestSection ends at the next heading, of whatever level, and not at a comment of a shell or of YAML.
func TestSection(t *testing.T) {
	const page = "# A\n\n```sh\none\n```\n\n## B\n\n```sh\n# two is next\ntwo\n```\n\n`make help` and:\n\n```yaml\n# C\na: b\n```\n\n```sh\nthree\n```\n\n### C\n\n```sh\nfour\n```\n"
	for heading, want := range map[string][]string{"A": {"one"}, "B": {"two", "three", "make help"}, "C": {"four"}, "D": nil, "": nil} {
		if got := Commands(Section(page, heading)); !slices.Equal(got, want) {
			t.Errorf("the commands under %q are %q, want %q", heading, got, want)
		}
	}
}
