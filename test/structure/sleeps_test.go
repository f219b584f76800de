package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sleeps are the files of tests that may let real time pass, and what for.
var sleeps = map[string]string{
	"internal/rollout/controller/effort_linux_test.go": "that waiting is no effort is what it measures",
	"test/aws/network_test.go":                         "a proof of absence: until AWS's time is over no connection fails",
	"test/cluster/cluster_test.go":                     "asks real nodes until a deadline",
	"test/cluster/machine/init/supervisor_test.go":     "asks processes until a deadline",
	"test/e2e/analysis_test.go":                        "a scenario on real nodes: traffic goes on for a while",
	"test/e2e/apart_test.go":                           "a scenario on real nodes: the API server is away for a while",
	"test/e2e/events_test.go":                          "a scenario on real nodes: it settles for as long as the product lets it",
	"test/e2e/membership_test.go":                      "a scenario on real nodes: traffic goes on for a while",
	"test/e2e/move_test.go":                            "a scenario on real nodes: traffic goes on for a while",
	"test/e2e/rejection_test.go":                       "a proof of absence on real nodes: few pods are made anew",
	"test/e2e/resets_test.go":                          "a proof of absence on real nodes: an endpoint that fails gets few requests for a while",
	"test/e2e/rollout_test.go":                         "a scenario on real nodes: the API server is away for a while, and nothing is to happen",
	"test/e2e/scenario_test.go":                        "a scenario on real nodes: traffic goes on for a while",
	"test/e2e/shutdown_test.go":                        "a proof of absence on real nodes: nothing is rolled out once more",
	"tools/images/images_test.go":                      "what stops may reset who asks meanwhile: it is asked a while later",
	"test/lb/lb_test.go":                               "load: traffic goes on for a while, and none reaches who is out",
	"test/traffic/traffic_test.go":                     "load: a server that stalls, and one that resets when its answer was read",
	"test/webhook/fixture_test.go":                     "load: requests that last",
	"test/webhook/traffic_test.go":                     "a proof of absence: a node with a request under way is not called detached",
}

// TestSleeps lets a test sleep only in virtual time (testing/synctest), and in the files that
// are named here. What is to come is waited for by what tells of it, or asked for again and
// again until a deadline; a clock that is passed in is set.
func TestSleeps(t *testing.T) {
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(file, "_test.go"):
			name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
			found[name] = sleepsForReal(parse(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 200 {
		t.Fatalf("there are %d files: this test looks in the wrong place", len(found))
	}
	for _, problem := range amiss(found, sleeps) {
		t.Error(problem)
	}
}

// amiss are the files that sleep without a reason, and the reasons without a sleep.
func amiss(found map[string]bool, reasons map[string]string) (out []string) {
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if found[file] && reasons[file] == "" {
			out = append(out, file+" sleeps: wait for what tells, or in a bubble of testing/synctest")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(reasons)) {
		if !found[file] {
			out = append(out, file+" does not sleep any more: strike it out of sleeps")
		}
	}
	return out
}

// sleepsForReal reports whether a file of tests calls time.Sleep, and has no bubble in which that
// could be.
func sleepsForReal(file *ast.File) bool {
	names := map[string]string{}
	for _, spec := range file.Imports {
		names[localName(spec)] = strings.Trim(spec.Path.Value, `"`)
	}
	uses := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok {
				uses[names[x.Name]+"."+selector.Sel.Name] = true
			}
		}
		return true
	})
	return uses["time.Sleep"] && !uses["testing/synctest.Test"]
}

// TestSlipsOfSleeps: a sleep is found, under whatever name, and a reason that is none any more.
func TestSlipsOfSleeps(t *testing.T) {
	for _, test := range []struct {
		source string
		want   bool
	}{
		{`import "time"; func wait() { time.Sleep(time.Second) }`, true},
		{`import clock "time"; func wait() { for !done() { clock.Sleep(1) } }`, true},
		{`import "time"; var wait = time.Sleep`, true},
		{`import ("testing/synctest"; "time"); func wait() { time.Sleep(1); synctest.Wait() }`, true},
		{`import ("testing/synctest"; "time"); func TestWait(t *testing.T) { synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }`, false},
		{`import "time"; func wait() { <-time.After(1) }`, false},
		{`func wait(time clock) { time.Sleep(1) }`, false},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "slip_test.go", "package slip; "+test.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := sleepsForReal(file); got != test.want {
			t.Errorf("%s: it sleeps is %t, want %t", test.source, got, test.want)
		}
	}
	got := amiss(map[string]bool{"a": true, "b": true, "c": false, "e": false}, map[string]string{"a": "load", "c": "load", "d": "load"})
	if want := []string{"b", "c", "d"}; !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("amiss are %q, want %q", got, want)
	}
}
