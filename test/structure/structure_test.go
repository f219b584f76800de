// Package structure holds the source to its rules: who may import whom, and what pure packages
// may call; and CONTRIBUTING.md, which says why, to the source.
package structure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/mumoshu/ingress-daemonset-controller/"

// acting are packages of the standard library that a pure package has no use for.
var acting = []string{"flag", "io", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "os/signal", "sync", "syscall", "testing"}

// clientModules do I/O, also where they are imported by what a pure package imports.
var clientModules = []string{"k8s.io/client-go/", "sigs.k8s.io/controller-runtime/"}

// timeCalls read or await a clock.
var timeCalls = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// vague names say nothing of what a package is for.
var vague = []string{"common", "helper", "helpers", "misc", "shared", "util", "utils"}

type goPackage struct {
	ImportPath, Name, Dir string
	GoFiles               []string
	Imports, Deps         []string
	TestImports           []string
	XTestImports          []string
}

// path is the package's path in the module.
func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []goPackage {
	t.Helper()
	list, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var listed = sync.OnceValues(list)

func list() ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,GoFiles,Imports,Deps,TestImports,XTestImports", "./...", "./test/...", "./tools/...")
	cmd.Dir = filepath.Join("..", "..")
	// What is only for Linux belongs to it wherever it is looked at.
	cmd.Env = append(os.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	var list []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// TestGoroutinesAreRaced has make run the tests of every controller and adapter under the race detector.
func TestGoroutinesAreRaced(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(strings.ReplaceAll(string(makefile), "\\\n", " "), "\nRACED = ")
	list, _, _ = strings.Cut(list, "\n")
	raced := strings.Fields(list)
	count := 0
	for _, r := range rules {
		if r.kind != controller && r.kind != adapter {
			continue
		}
		if count++; !slices.Contains(raced, strings.TrimPrefix(r.path, "internal/")) {
			t.Errorf("%s is not in RACED of the Makefile", r.path)
		}
	}
	if len(raced) != count {
		t.Errorf("raced are %v, which are not all controllers and adapters", raced)
	}
}

// TestImports lets every package import only what its place permits.
func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		r, found := ruleOf(p.path())
		switch {
		case found:
			mayImport(t, p, r.own)
		case ships(p.path()):
			t.Errorf("%s is new: name it in rules, where a newcomer should open it", p.path())
		}
		if r.decides() {
			staysPure(t, p, r.others)
		}
		if r.kind == example {
			needsNoOther(t, p)
		}
	}
}

// mayImport holds a package to some of this module's packages.
func mayImport(t *testing.T, p goPackage, own []string) {
	for _, imported := range p.Imports {
		if name, ours := strings.CutPrefix(imported, module); ours && !slices.Contains(own, name) {
			t.Errorf("%s imports %s: of this module it may import %s", p.path(), name, strings.Join(own, ", "))
		}
	}
}

// needsNoOther lets a package import no other module.
func needsNoOther(t *testing.T, p goPackage) {
	for _, imported := range p.Imports {
		if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") && !strings.HasPrefix(imported, module) {
			t.Errorf("%s imports %s: it may import the standard library", p.path(), imported)
		}
	}
}

func staysPure(t *testing.T, p goPackage, others []string) {
	from := func(modules []string) func(string) bool {
		return func(imported string) bool {
			return slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(imported+"/", m) })
		}
	}
	for _, imported := range p.Imports {
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case strings.HasPrefix(imported, module):
		case strings.Contains(first, "."):
			if !from(others)(imported) {
				t.Errorf("%s is pure and imports %s: it may import %s", p.path(), imported, strings.Join(others, ", "))
			}
		case slices.Contains(acting, imported):
			t.Errorf("%s is pure and imports %s: move what acts into a controller or an adapter", p.path(), imported)
		}
	}
	if at := slices.IndexFunc(p.Deps, from(clientModules)); at >= 0 {
		t.Errorf("%s is pure and depends on %s, which does I/O", p.path(), p.Deps[at])
	}
}

// TestToolsNeedNoTests lets nothing in tools/ import test/: they build and deploy the product.
func TestToolsNeedNoTests(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.path(), "tools/") {
			continue
		}
		for _, imported := range slices.Concat(p.Deps, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(imported, module+"test/") {
				t.Errorf("%s depends on %s: move what both need into tools/ or internal/testing", p.path(), imported)
			}
		}
	}
}

// independent are trees that share nothing with what is tested on them, nor with each other.
var independent = []string{"test/aws", "test/cluster", "test/traffic"}

// TestTreesAreIndependent lets the emulator of AWS, the local cluster and the client that counts
// stand alone, each with a page that says what it is.
func TestTreesAreIndependent(t *testing.T) {
	for _, tree := range independent {
		if _, err := os.Stat(filepath.Join("..", "..", tree, "README.md")); err != nil {
			t.Errorf("nothing says what %s is: %v", tree, err)
		}
		within := func(path string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }
		found := false
		for _, p := range packages(t) {
			if !within(p.path()) {
				continue
			}
			found = true
			for _, imported := range slices.Concat(p.Deps, p.TestImports, p.XTestImports) {
				if name, ours := strings.CutPrefix(imported, module); ours && !within(name) {
					t.Errorf("%s depends on %s: it must stand alone", p.path(), name)
				}
			}
		}
		if !found {
			t.Errorf("there is no package in %s", tree)
		}
	}
}

// TestAuditIsIndependent lets what judges in the simulation of both loops share nothing
// with them but the words for what there is in a cloud.
func TestAuditIsIndependent(t *testing.T) {
	words := []string{"Target", "Kind", "IP", "Instance"}
	for _, name := range []string{"wanted_test.go", "audit_test.go", "audit_nodes_test.go", "audit_calls_test.go", "rest_test.go"} {
		file := parse(t, filepath.Join("..", "attaching", name))
		shared := map[string]bool{}
		for _, spec := range file.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			switch {
			case ours && imported == "internal/targets":
				shared[localName(spec)] = true
			case ours && imported != "api/v1alpha1":
				t.Errorf("test/attaching/%s imports %s", name, imported)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); ok && shared[x.Name] && !slices.Contains(words, selector.Sel.Name) {
				t.Errorf("test/attaching/%s uses %s.%s: the audit knows by itself", name, x.Name, selector.Sel.Name)
			}
			return true
		})
	}
}

// TestClocks lets no pure package read a clock or wait: the time is an argument.
func TestClocks(t *testing.T) {
	for _, p := range packages(t) {
		if r, _ := ruleOf(p.path()); !r.decides() {
			continue
		}
		for _, name := range p.GoFiles {
			file := parse(t, filepath.Join(p.Dir, name))
			clocks := map[string]bool{}
			for _, spec := range file.Imports {
				clocks[localName(spec)] = isClock(spec.Path.Value)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := selector.X.(*ast.Ident); ok && clocks[x.Name] && slices.Contains(timeCalls, selector.Sel.Name) {
					t.Errorf("%s/%s uses %s.%s: take the time from the State", p.path(), name, x.Name, selector.Sel.Name)
				}
				return true
			})
		}
	}
}

// isClock reports whether a package has functions that read the clock.
func isClock(quoted string) bool {
	return quoted == `"time"` || quoted == `"k8s.io/apimachinery/pkg/apis/meta/v1"`
}

func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	return path.Base(strings.Trim(spec.Path.Value, `"`))
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source(t, file), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// source is what the Go command takes for the content of a file: that of another one, where GOFLAGS name an
// overlay that says so (go help build).
func source(t *testing.T, file string) []byte {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{}
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		name, given := strings.CutPrefix(flag, "-overlay=")
		if !given {
			continue
		}
		content, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(content, &overlay)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if other := overlay.Replace[path]; other != "" {
		path = other
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestNames lets a package be called by what it is for.
func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		for part := range strings.SplitSeq(p.path(), "/") {
			if slices.Contains(vague, part) {
				t.Errorf("%s: a package is called by what it is for, not %s", p.path(), part)
			}
		}
		if slices.Contains(vague, p.Name) {
			t.Errorf("%s: a package is called by what it is for, not %s", p.path(), p.Name)
		}
	}
}

// TestFlags lets only commands read flags, and internal/kubectl, which is the command line of one.
func TestFlags(t *testing.T) {
	for _, p := range packages(t) {
		if p.Name == "main" || p.path() == "internal/kubectl" {
			continue
		}
		for _, flags := range []string{"flag", "github.com/spf13/pflag"} {
			if slices.Contains(p.Imports, flags) {
				t.Errorf("%s reads flags (%s): only commands do", p.path(), flags)
			}
		}
	}
}

// TestProductNeedsNoTests lets nothing that is shipped import what is not.
func TestProductNeedsNoTests(t *testing.T) {
	for _, p := range packages(t) {
		if !ships(p.path()) {
			continue
		}
		for _, imported := range p.Imports {
			if name, ours := strings.CutPrefix(imported, module); ours && !ships(name) {
				t.Errorf("%s imports %s, which is not shipped", p.path(), name)
			}
		}
	}
}
