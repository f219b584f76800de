package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConversionsAreAccepted: what kubectl ids from prints of the examples of internal/conversion may be
// applied as it is, but for what its comments say is refused.
func TestConversionsAreAccepted(t *testing.T) {
	files, err := filepath.Glob("../../internal/conversion/testdata/*.out.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		refused := ""
		switch strings.TrimSuffix(filepath.Base(file), ".out.yaml") {
		case "daemonset-ondelete":
			refused = "metadata.name must be at most 52 characters"
		case "deployment-recreate":
			refused = "belongs to one pod of a node at a time"
		}
		got := attempt(t.Context(), patched(string(content), `{metadata: {namespace: default}}`))
		if refused == "" && got.err != nil || refused != "" && (got.err == nil || !strings.Contains(got.err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", file, got.err, refused)
		}
	}
	long, err := os.ReadFile("../../internal/conversion/testdata/daemonset-ondelete.out.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := attempt(t.Context(), patched(string(long), `{metadata: {name: shorter}}`)); got.err != nil {
		t.Errorf("with a shorter name: %v", got.err)
	}
}
