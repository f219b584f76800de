// Package variants breaks the product in one place at a time, as a slip would, and
// holds the tests against it: each variant must be caught, or a promise is not tested.
// The source stays as it is: the Go command reads the broken file from elsewhere.
package variants

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

const root = "../.."

// variant is one slip, and the tests that are to catch it.
type variant struct {
	name string
	// from stands in file once, and is replaced by to.
	file, from, to string
	// tests of a package fail, and say why.
	in, tests, say string
}

var variants = slices.Concat(targets, rollouts, proxies)

// targets are slips in what keeps targets and nodes in load balancers.
var targets = []variant{
	{
		name: "a namespace may register where one is named that begins so",
		file: "internal/targets/admission.go",
		from: "!slices.Contains(strings.Fields(names), namespace)",
		to:   "!slices.ContainsFunc(strings.Fields(names), func(n string) bool { return strings.HasPrefix(n, namespace) })",
		in:   "./internal/targets", tests: "TestWhoMayAddTargets", say: "--- FAIL: TestWhoMayAddTargets/others",
	},
	{
		name: "a namespace that may not register takes out what others did",
		file: "internal/targets/pass.go",
		from: "!t.crowded && t.admission.why == \"\" && t.Object",
		to:   "!t.crowded && t.Object",
		in:   "./internal/targets", tests: "TestWhatIsThereStays", say: "--- FAIL: TestWhatIsThereStays/the_group_is_all_theirs",
	},
	{
		name: "the detachment timestamp is written when the call to deregister returns",
		file: "internal/targets/leave.go",
		from: "\taccepted := a.accepts(false) && !p.ReadAt.Before(a.At)\n",
		to: "\taccepted := a.accepts(false) && !p.ReadAt.Before(a.At)\n" +
			"\tif a.accepts(false) {\n\t\tp.report(t, Stopped, a.At, time.Time{}, \"the call has returned\")\n\t\treturn\n\t}\n",
		in: "./test/targets", tests: "TestTraffic", say: "it is said to be detached, and its load balancer may still send connections",
	},
	{
		name: "a target that reads unused is taken for stopped before its load balancer's settle time has passed",
		file: "internal/targets/stop.go",
		from: "\tif where == draining || p.Group.Balancer == Classic {\n",
		to:   "\tif where == absent {\n\t\tat = r.LeftAt\n\t}\n\tif where == draining {\n",
		in:   "./test/targets", tests: "TestTraffic", say: "it is said to be detached, and its load balancer may still send connections",
	},
	{
		name: "a target that reads unused is taken for not registered, whatever its reason",
		file: "internal/targets/groupstate.go",
		from: "case !listed || h.Reason == NotRegistered:",
		to:   "case !listed || h.Condition == Unused:",
		in:   "./internal/targets", tests: "TestDecide|TestConvergence", say: "--- FAIL: TestDecide/unused_in_use_elsewhere_is_not_gone",
	},
	{
		name: "the port is dropped when a target is deregistered",
		file: "internal/targets/aws/write.go",
		from: "described = append(described, description(t))",
		to:   "described = append(described, types.TargetDescription{Id: &t.ID})",
		in:   "./test/targets", tests: "TestInvalidTarget", say: "was deregistered, and is",
	},
	{
		name: "nobody waits until the targets of an attached node are healthy",
		file: "internal/targets/nodes.go",
		from: "return r.Phase == Attached || r.Phase == Absent || r.Phase == Failing && unhealthy",
		to:   "return unhealthy || r.Phase == Attached || r.Phase == Absent || r.Phase == Failing || r.Phase == Registering",
		in:   "./test/targets", tests: "TestDetachedNode", say: "it is said to be attached while its target is not healthy",
	},
	{
		name: "what an incomplete list lacks is deregistered",
		file: "internal/targets/leave.go",
		from: "case !begun && !w.Seen && !p.synced(r.Target):",
		to:   "case !begun && !w.Seen && !p.Synced && !p.Live:",
		in:   "./internal/targets", tests: "TestDecide|TestConvergence", say: "is deregistered for being absent from lists, synced false",
	},
	{
		name: "a call that is refused for one target refuses all",
		file: "internal/targets/queue.go",
		from: "\t\tq.halve(call)\n",
		to: "\t\tfor _, r := range call.Targets {\n\t\t\talone := call\n\t\t\talone.Targets = []Registration{r}\n" +
			"\t\t\tq.refuse(now, alone, outcome, why)\n\t\t}\n",
		in: "./test/targets", tests: "TestInvalidTarget", say: "what is valid is refused beside what is not",
	},
	{
		name: "the last healthy target of a zone is taken out",
		file: "internal/targets/minimum.go",
		from: "range p.zonesOf(h) {",
		to:   "range p.zonesOf(h)[:0] {",
		in:   "./test/targets", tests: "TestLastOfAZone", say: "the last target of its zone is taken out",
	},
	{
		name: "the label that excludes a node from load balancers stays",
		file: "internal/detach/marks.go",
		from: "case !out && there && value == ours:",
		to:   "case !out && !there && value == ours:",
		in:   "./internal/detach", tests: "TestPhases|TestNothingIsLeftDetached", say: "still has map[node.kubernetes.io/exclude-from-external-load-balancers:ingress-daemonset]",
	},
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests of the variants wait for most of their time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestVariants has each variant caught, and says by what.
func TestVariants(t *testing.T) {
	caught := make([][]string, len(variants))
	t.Run("each", func(t *testing.T) {
		for i, v := range variants {
			t.Run(strings.ReplaceAll(v.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				caught[i] = v.caught(t)
			})
		}
	})
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "variant\tcaught by")
	for i, v := range variants {
		by := "nothing"
		if len(caught[i]) > 0 {
			by = strings.TrimPrefix(v.in, "./") + " " + strings.Join(caught[i], ", ")
		}
		fmt.Fprintf(w, "%s\t%s\n", v.name, by)
	}
	w.Flush()
	t.Logf("\n%s", &table)
}

// caught runs the tests on the variant, and returns those that fail as they should.
func (v variant) caught(t *testing.T) []string {
	dir, err := os.MkdirTemp("", "variant-") // sockets are in it, whose paths must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	overlay := v.overlay(t, dir)
	if out, err := command(dir, overlay, "build", "./"+filepath.Dir(v.file)).CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: mend the variant in this test\n%s", out)
	}
	args := []string{"test", "-json", "-count=1", "-timeout=10m", "-vet=off", "-ldflags=-s -w", "-run=^(" + v.tests + ")$", v.in}
	if draws(t, v.in) {
		args = append(args, "-rapid.nofailfile")
	}
	out, err := command(dir, overlay, args...).Output()
	if err == nil {
		t.Fatalf("it is not caught by %s %s: extend them", v.in, v.tests)
	}
	failed, said := failures(t, out)
	if len(failed) == 0 || !strings.Contains(said, v.say) {
		t.Fatalf("%v failed, and not because %q:\n%s", failed, v.say, said)
	}
	return failed
}

// draws reports whether tests of a package draw cases: others know no such flag.
func draws(t *testing.T, folder string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && bytes.Contains(source, []byte(`"pgregory.net/rapid"`))
	})
}

// overlay is a file that tells the Go command to read the broken file instead.
func (v variant) overlay(t *testing.T, dir string) string {
	path, err := filepath.Abs(filepath.Join(root, v.file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), v.from); n != 1 {
		t.Fatalf("%s has %q %d times, and not once: mend the variant in this test", v.file, v.from, n)
	}
	broken, file := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{broken: []byte(strings.Replace(string(source), v.from, v.to, 1)), file: content} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// command is the Go command on the variant, also where it is called by a test in turn.
func command(dir, overlay string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -overlay=" + overlay)
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags, "TMPDIR="+dir)
	return cmd
}

// failures are the tests that failed, and what was said.
func failures(t *testing.T, out []byte) (failed []string, said string) {
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		text.WriteString(event.Output)
		if event.Action == "fail" && event.Test != "" && !strings.Contains(event.Test, "/") {
			failed = append(failed, event.Test)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(failed)
	return failed, text.String()
}
