package structure

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// order is that of what a controller does in a pass.
type order struct {
	controller string
	// pass are the functions that Reconcile comes to, one after the other.
	pass []string
	// writes are those that write beside apply, each with what that is.
	writes map[string]string
	// guards are the files in which reads stand that a write needs right before it, each with what
	// it reads; counts those whose metrics are of what no pass waits for.
	guards, counts map[string]string
}

// orders are those of all controllers: what is read is read before it is decided upon, and what is told
// is told when it is done and stands in a status.
var orders = []order{
	{
		controller: "internal/rollout/controller",
		pass:       []string{"observe", "Plan", "apply", "writeStatus", "announceSteps", "announceStatus", "count"},
		writes: map[string]string{
			"writeStatus":  "the one status of a pass",
			"addFinalizer": "without it there is no pass",
		},
		guards: map[string]string{
			"guard.go": "whether what was decided upon is still so, before it is acted upon",
			"live.go":  "of what is written that which caches leave out",
		},
	},
	{
		controller: "internal/targets/controller",
		pass:       []string{"observe", "Plan", "apply", "report"},
		guards:     map[string]string{"caches.go": "beside the passes, whether caches show what another leader saw"},
		counts:     map[string]string{"account.go": "a call is counted when it ends"},
	},
	{
		controller: "internal/detach/controller",
		pass:       []string{"observe", "Plan", "apply", "report"},
		guards:     map[string]string{"guard.go": "whether what was decided upon is still so, before it is acted upon"},
	},
	{
		controller: "internal/routing/controller",
		pass:       []string{"observe", "Compile", "apply", "report"},
		guards:     map[string]string{"secrets.go": "beside the passes, each Secret that is named, when it changes"},
	},
	{
		controller: "internal/routing/issuer",
		pass:       []string{"observe", "Decide", "apply", "report"},
	},
}

// TestOrder lets a controller observe without writing, act without reading but in its guards, tell of
// nothing before it has acted, and write where it acts.
func TestOrder(t *testing.T) {
	named := map[string]bool{}
	for _, o := range orders {
		named[o.controller] = true
	}
	for _, r := range rules {
		if r.kind == controller && !named[r.path] {
			t.Errorf("%s is a controller without an order", r.path)
		}
	}
	imports := importing(t)
	for _, p := range packages(t) {
		at := slices.IndexFunc(orders, func(o order) bool { return o.controller == p.path() })
		if at < 0 {
			continue
		}
		sources := map[string][]byte{}
		for _, file := range p.GoFiles {
			sources[file] = source(t, filepath.Join(p.Dir, file))
		}
		for _, complaint := range orders[at].complaints(check(t, imports, p.ImportPath, sources)) {
			t.Errorf("%s: %s", p.path(), complaint)
		}
	}
}

// TestSlipsOfOrder: what is out of order is found, through whatever it is called by.
func TestSlipsOfOrder(t *testing.T) {
	imports := importing(t)
	const kept = `package slip
import ("context"; "sigs.k8s.io/controller-runtime/pkg/client"; "k8s.io/client-go/tools/events"; "github.com/prometheus/client_golang/prometheus")
type Reconciler struct { client client.Client; recorder events.EventRecorder; told prometheus.Counter }
func (r *Reconciler) get(ctx context.Context) error { return r.client.Get(ctx, client.ObjectKey{}, nil) }
func (r *Reconciler) create(ctx context.Context) error { return r.client.Status().Update(ctx, nil) }
func (r *Reconciler) event() { r.recorder.Eventf(nil, nil, "", "", "", "") }
func each(f func(context.Context) error) error { return f(context.Background()) }
func Plan() {}
`
	const rest = "\nfunc (r *Reconciler) observe() { %s }\nfunc (r *Reconciler) apply() { %s }\nfunc (r *Reconciler) report() { r.event(); r.told.Inc() }\nfunc (r *Reconciler) Reconcile() { %s }\n"
	const observes, applies, passes = "_ = each(r.get)", "_ = each(func(ctx context.Context) error { return r.create(ctx) })", "r.observe(); Plan(); r.apply(); r.report()"
	for name, test := range map[string]struct{ observe, apply, pass, say string }{
		"in order":                  {observes, applies, passes, ""},
		"writes as it observes":     {"_ = each(r.create)", applies, passes, "observe comes to create, which writes"},
		"tells as it observes":      {"r.event()", applies, passes, "observe comes to event, which makes an event"},
		"reads as it acts":          {observes, "_ = each(r.get)", passes, "apply comes to get in slip.go, which reads: read it in observe, or name its file among the guards of this test"},
		"tells as it acts":          {observes, "defer r.event()", passes, "apply comes to event, which makes an event"},
		"counts as it acts":         {observes, "r.told.Inc()", passes, "apply comes to apply, which counts"},
		"tells before it acts":      {observes, applies, "r.observe(); Plan(); r.report(); r.apply()", "a pass comes to [observe Plan report apply], want [observe Plan apply report]"},
		"decides before it sees":    {observes, applies, "Plan(); r.observe(); r.apply(); r.report()", "a pass comes to [Plan observe apply report], want [observe Plan apply report]"},
		"writes beside acting":      {observes, applies, passes + "; _ = each(r.create)", "Reconcile comes to create, which writes: write it in apply, or name it among the writes of this test"},
		"observes again as it acts": {observes, "r.observe()", passes, "apply comes to get in slip.go, which reads: read it in observe, or name its file among the guards of this test"},
	} {
		o := order{pass: []string{"observe", "Plan", "apply", "report"}}
		slip := kept + fmt.Sprintf(rest, test.observe, test.apply, test.pass)
		said := strings.Join(o.complaints(check(t, imports, "slip", map[string][]byte{"slip.go": []byte(slip)})), "\n")
		if said != test.say {
			t.Errorf("%s: said is %q, want %q", name, said, test.say)
		}
	}
}

// checked is a package whose names are resolved.
type checked struct {
	set       *token.FileSet
	info      *types.Info
	functions map[*types.Func]*ast.FuncDecl
}

// check resolves the names of a package.
func check(t *testing.T, imports types.Importer, path string, files map[string][]byte) checked {
	t.Helper()
	c := checked{token.NewFileSet(), &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}, map[*types.Func]*ast.FuncDecl{}}
	var parsed []*ast.File
	for name, content := range files {
		one, err := parser.ParseFile(c.set, name, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, one)
	}
	config := types.Config{Importer: imports}
	if _, err := config.Check(path, c.set, parsed, c.info); err != nil {
		t.Fatal(err)
	}
	for _, file := range parsed {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				c.functions[c.info.Defs[f.Name].(*types.Func)] = f
			}
		}
	}
	return c
}

// exported are the files that hold the types of all packages which the controllers are made of, as they
// were built, by import path.
var exported = sync.OnceValues(func() (map[string]string, error) {
	arguments := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, o := range orders {
		arguments = append(arguments, "./"+o.controller)
	}
	cmd := exec.Command("go", arguments...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	files := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		path, file, _ := strings.Cut(lines.Text(), "\t")
		files[path] = file
	}
	return files, nil
})

// importing gives the types of what the controllers import.
func importing(t *testing.T) types.Importer {
	t.Helper()
	files, err := exported()
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// complaints are what is out of order.
func (o order) complaints(c checked) (out []string) {
	if got := c.comesTo("Reconcile", o.pass); !slices.Equal(got, o.pass) {
		out = append(out, fmt.Sprintf("a pass comes to %v, want %v", got, o.pass))
	}
	say := func(from string, complain func(act, file string) string) {
		for f := range c.reached(from) {
			file := c.set.Position(f.Pos()).Filename
			for _, act := range c.acts(f) {
				if what := complain(act, file); what != "" {
					out = append(out, fmt.Sprintf("%s comes to %s%s", from, f.Name.Name, what))
				}
			}
		}
	}
	say("observe", func(act, _ string) string {
		if act == reading {
			return ""
		}
		return ", which " + act
	})
	say("apply", func(act, file string) string {
		switch {
		case act == writing, act == reading && o.guards[file] != "", act == counting && o.counts[file] != "":
			return ""
		case act == reading:
			return " in " + file + ", which reads: read it in observe, or name its file among the guards of this test"
		}
		return ", which " + act
	})
	// What observe comes to is told above.
	mayWrite := append(slices.Collect(maps.Keys(o.writes)), "apply", "observe")
	for f := range c.reached("Reconcile", mayWrite...) {
		if slices.Contains(c.acts(f), writing) {
			out = append(out, fmt.Sprintf("Reconcile comes to %s, which writes: write it in apply, or name it among the writes of this test", f.Name.Name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// comesTo are those of some functions that are called by one of that name, in the order in which they stand:
// by itself or by what it calls, which is not looked into where it is one of them.
func (c checked) comesTo(from string, these []string) (found []string) {
	seen := map[*ast.FuncDecl]bool{}
	var walk func(f *ast.FuncDecl)
	walk = func(f *ast.FuncDecl) {
		seen[f] = true
		c.uses(f, func(used *types.Func) {
			next := c.functions[used]
			switch {
			case slices.Contains(these, used.Name()):
				if !slices.Contains(found, used.Name()) {
					found = append(found, used.Name())
				}
			case next != nil && !seen[next]:
				walk(next)
			}
		})
	}
	for f := range c.named(from) {
		walk(f)
	}
	return found
}

// reached are the functions that one of a name comes to by others than some, and itself.
func (c checked) reached(from string, but ...string) map[*ast.FuncDecl]bool {
	reached := map[*ast.FuncDecl]bool{}
	for next := slices.Collect(maps.Keys(c.named(from))); len(next) > 0; next = next[1:] {
		if reached[next[0]] {
			continue
		}
		reached[next[0]] = true
		c.uses(next[0], func(used *types.Func) {
			if f := c.functions[used]; f != nil && !slices.Contains(but, used.Name()) {
				next = append(next, f)
			}
		})
	}
	return reached
}

// named are the methods of the controller of a name: those of what others it is made of are not its own.
func (c checked) named(name string) map[*ast.FuncDecl]bool {
	out := map[*ast.FuncDecl]bool{}
	for _, f := range c.functions {
		if f.Name.Name == name && receiver(f) == "Reconciler." {
			out[f] = true
		}
	}
	return out
}

// uses calls with each function that another one names, in the order in which they stand.
func (c checked) uses(f *ast.FuncDecl, with func(*types.Func)) {
	if f.Body == nil {
		return
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			if used, ok := c.info.Uses[name].(*types.Func); ok {
				with(used.Origin())
			}
		}
		return true
	})
}

// What a function does to the world.
const (
	reading  = "reads"
	writing  = "writes"
	telling  = "makes an event"
	counting = "counts"
)

// actingBy are the functions by which that is done, by their package.
var actingBy = map[string]map[string]string{
	"sigs.k8s.io/controller-runtime/pkg/client": {
		"Get": reading, "List": reading,
		"Create": writing, "Update": writing, "Patch": writing, "Apply": writing, "Delete": writing, "DeleteAllOf": writing,
	},
	"k8s.io/client-go/tools/cache":                   {"Get": reading, "GetByKey": reading, "List": reading, "ByIndex": reading},
	"k8s.io/client-go/tools/internal/events":         {"Eventf": telling},
	"github.com/prometheus/client_golang/prometheus": {"Inc": counting, "Add": counting, "Set": counting, "Observe": counting},
}

// acts are what a function does itself.
func (c checked) acts(f *ast.FuncDecl) (out []string) {
	c.uses(f, func(used *types.Func) {
		if used.Pkg() == nil {
			return
		}
		if act := actingBy[used.Pkg().Path()][used.Name()]; act != "" {
			out = append(out, act)
		}
	})
	return out
}
