package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/audit"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

var all = flag.Bool("all", false, "run the tests of extended features too, and write the suite's report to docs/conformance")

// theSetup is what the test runs on.
var theSetup *setup

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main("ids-conformance", func(ctx context.Context, dir string) int {
		var err error
		if theSetup, err = setUp(ctx, dir); err != nil {
			fmt.Println("setting up:", err)
			return 1
		}
		crashes := theSetup.WatchCrashes(ctx)
		code := m.Run()
		if err := errors.Join(crashes(), checkPermissions()); err != nil {
			fmt.Println(err)
			code = 1
		}
		return code
	}))
}

// checkPermissions is an error where the controller was refused something.
func checkPermissions() error {
	events, err := audit.Read(theSetup.AuditLog(), audit.Account("system:serviceaccount:ingress-daemonset-system:ingress-daemonset-controller"))
	if err != nil {
		return err
	}
	return audit.Check("the controller", events, false, nil)
}

// TestConformance runs the tests of all features that are core, or of all that the GatewayClass says are supported.
func TestConformance(t *testing.T) {
	version, err := version(theSetup.Root())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(theSetup.Dir(), "report.yaml")
	flags := []string{"-version=" + version, "-report-output=" + file}
	if *all {
		flags = append(flags, "-usable-address="+usable, "-unusable-address="+unusable)
	} else {
		flags = append(flags, "-supported-features=Gateway,HTTPRoute,ReferenceGrant")
	}
	runSuite(t, flags)
	report, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkReport(t, report)
	if *all && !t.Failed() {
		if err := os.WriteFile(filepath.Join(theSetup.Root(), "docs", "conformance", "standard-"+version+"-default-report.yaml"), report, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// version is that of the release which CHANGELOG.md begins with.
func version(root string) (string, error) {
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	_, first, found := strings.Cut(string(changes), "\n## ")
	if !found {
		return "", errors.New("CHANGELOG.md has no release")
	}
	version, _, _ := strings.Cut(first, "\n")
	return version, nil
}

// runSuite runs the suite outside the nodes, as clients are.
func runSuite(t *testing.T, flags []string) {
	t.Helper()
	args := append([]string{"tool", "test2json", theSetup.suite(), "-test.v=test2json", "-test.timeout=20m", "-conformance-options-file=" + theSetup.options()}, flags...)
	cmd := theSetup.Command(t.Context(), "go", args...)
	cmd.Env, cmd.Stderr = append(cmd.Env, "KUBECONFIG="+theSetup.inside()), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tell(t, bufio.NewScanner(out))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the suite: %v", err)
	}
}

// event is of test2json.
type event struct{ Action, Test, Output string }

// tell tells how each test ended, and of those that failed what they said at last.
func tell(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	lines.Buffer(nil, 1<<20)
	said := map[string]string{}
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		switch e.Action {
		case "output":
			said[e.Test] += e.Output
		case "fail":
			// The whole fails with each of its tests, and by itself where it cannot begin.
			if strings.Contains(e.Test, "/") || !t.Failed() {
				t.Errorf("%s failed:\n%s", e.Test, lastLines(said[e.Test]))
			}
		case "pass":
			if strings.Count(e.Test, "/") == 1 {
				t.Logf("%s passed", e.Test)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// lastLines are those before which tests only say that they still wait.
func lastLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "")
}
