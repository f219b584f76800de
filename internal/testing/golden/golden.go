// Package golden compares what tests make with files that people read, such as stories, tables
// and manifests.
package golden

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
