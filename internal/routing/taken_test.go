package routing

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// TestAProxyTakesWhatIsCompiled sends what each golden case comes to at its end through bytes into a
// proxy's table: nothing changes on the way, and nothing is refused.
func TestAProxyTakesWhatIsCompiled(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := play(t, string(text), func(int, Result) {})
		for _, set := range m.IngressDaemonSets() {
			var changes table.Changes
			for _, r := range m.Resources(set) {
				sent++
				changes.Set = append(changes.Set, sentAs(t, r))
			}
			for _, refused := range (&table.Table{}).Apply(changes).Refused {
				t.Errorf("%s, %s: %+v", file, set, refused)
			}
		}
	}
	if sent < len(files) {
		t.Errorf("%d resources of %d cases", sent, len(files))
	}
}

// sentAs is a resource as who reads its bytes has it.
func sentAs(t *testing.T, r wire.Resource) wire.Resource {
	t.Helper()
	bytes, err := wire.Encode(r)
	if err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	got, err := wire.Decode(bytes)
	if err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	if again, err := wire.Encode(got); err != nil || !cmp.Equal(bytes, again) {
		t.Errorf("%s has other bytes when it was read: %v", r.Name, err)
	}
	return got
}
