// Package golden compares what tests make with files that people read, such as stories, tables
// and manifests.
package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Test makes the content of a file in a test of its own, which is called as the file without its ending,
// and compares them as Equal does.
func Test(t *testing.T, update bool, file string, content func(*testing.T) string) {
	t.Helper()
	base := filepath.Base(file)
	t.Run(strings.TrimSuffix(base, filepath.Ext(base)), func(t *testing.T) { Equal(t, update, file, content(t)) })
}

// Equal fails the test where a file has other content than got, or is not there. The flag -update
// of the tests' package has it rewritten first.
func Equal(t testing.TB, update bool, file, got string) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is meant, run with -update\n%s", file, diff)
	}
}
