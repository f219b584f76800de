package conformance

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// profile is what conformance is claimed to.
const profile = "GATEWAY-HTTP"

// How many tests there are: a feature that is not supported any more would take its own with it.
const coreTests, extendedTests = 36, 27

// report is what is read of the suite's.
type report struct {
	Profiles []struct {
		Name           string
		Core, Extended level
	}
}

// level are the tests of core features, or of extended ones.
type level struct {
	Result       string
	SkippedTests []string
	Statistics   struct{ Passed, Failed, Skipped int }
}

// checkReport holds the suite to have run all tests that it was to run.
func checkReport(t *testing.T, text []byte) {
	t.Helper()
	var r report
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Profiles) != 1 || r.Profiles[0].Name != profile {
		t.Fatalf("the report is not one of %s:\n%s", profile, text)
	}
	r.Profiles[0].Core.check(t, "core", coreTests)
	if *all {
		r.Profiles[0].Extended.check(t, "extended", extendedTests)
	}
}

func (l level) check(t *testing.T, name string, want int) {
	t.Helper()
	s := l.Statistics
	t.Logf("%s tests: %d passed, %d failed, %d skipped %v", name, s.Passed, s.Failed, s.Skipped, l.SkippedTests)
	if l.Result != "success" || s.Passed != want || s.Failed+s.Skipped > 0 {
		t.Errorf("%s tests: %s; all of %d must pass", name, l.Result, want)
	}
}
