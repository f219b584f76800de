package structure

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planners are the packages that decide, and the functions there that give a value and change
// something all the same, each with why.
var planners = map[string]map[string]string{
	"rollout": {
		"look": "Sights are what is remembered between two passes, and no part of the planner",
	},
	"detach": {},
	"targets": {
		// Calls are queues, from which the next is taken.
		"Next":  "it makes the next call of those that are queued",
		"Take":  "it takes from the account's bucket",
		"begin": "it takes a batch from a queue",
		"batch": "it skips what need not be called any more",
		// What a pass asks often is worked out once.
		"anyUnplaced": "it keeps its answer for the pass",
		"foreignOn":   "it keeps its answers for the pass",
		"foundOf":     "it keeps its answers for the pass",
		// What is made is handed on for its parts.
		"partOf": "it makes a part, and has findMembers fill it",
		"tally":  "it counts into the status that it is made for, from zero on",
		"Date":   "it dates the decision that it is called on",
	},
}

// TestQuestionsChangeNothing lets a function of a planner that gives a value change nothing that it
// was given: no field, no map, no list. What a pass says can then be asked in any order, and as
// often as one likes.
func TestQuestionsChangeNothing(t *testing.T) {
	for name, acts := range planners {
		t.Run(name, func(t *testing.T) { questionsChangeNothing(t, name, acts) })
	}
}

func questionsChangeNothing(t *testing.T, planner string, acts map[string]string) {
	files, err := filepath.Glob(filepath.Join("..", "..", "internal", planner, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []*ast.File
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			sources = append(sources, parse(t, file))
		}
	}
	functions := functionsOf(sources)
	if len(functions) < 20 {
		t.Fatalf("there are %d functions: this test looks in the wrong place", len(functions))
	}
	found := map[string]bool{}
	for name, f := range functions {
		if planner == "rollout" && strings.HasPrefix(name, "pass.") && !f.gives() {
			t.Errorf("%s gives no value: what changes something is the planner's", name)
		}
		for _, change := range f.changes(functions) {
			if found[f.Name.Name] = true; acts[f.Name.Name] == "" {
				t.Errorf("%s gives a value and %s: give an answer or a verdict, and let who asked act on it", f.Name.Name, change)
			}
		}
	}
	for name := range acts {
		if !found[name] {
			t.Errorf("%s changes nothing any more: strike it out", name)
		}
	}
}

// TestSlipsOfQuestions: what the planner's questions did before they gave answers is found.
func TestSlipsOfQuestions(t *testing.T) {
	const planner = `package rollout
type pass struct { wave map[string]bool; views []view; gate *status }
type planner struct { pass; out []string; woken int }
func (p *planner) wake() { p.woken++ }
func (p *pass) find(name string) *view { return &p.views[0] }
func (p *pass) ordered() []*view { return nil }
func (p *pass) step() status { return status{} }
`
	for _, test := range []struct{ body, say string }{
		{"return p.wave[n]", ""},
		{"s := p.step(); s.at = 1; return s.done", ""},
		{"all := append([]view(nil), p.views...); all[0].acted = true; return true", ""},
		{"g := *p.gate; g.at++; return g.done", ""},
		{"p.woken++; return true", "writes to p"},
		{"p.out = append(p.out, n); return true", "writes to p"},
		{"p.wave[n] = true; return true", "writes to p"},
		{"delete(p.wave, n); return true", "passes what is not its own to delete"},
		{"slices.Sort(p.views); return true", "passes what is not its own to slices.Sort"},
		{"out := append(p.views, view{}); return len(out) > 0", "passes what is not its own to append"},
		{"p.wake(); return true", "calls wake, which gives no value"},
		{"v := &p.views[0]; v.acted = true; return true", "writes to v"},
		{"v := p.find(n); v.acted = true; return true", "writes to v"},
		{"g := p.gate; g.at = 1; return true", "writes to g"},
		{"for i := range p.views { v := &p.views[i]; v.acted = true }; return true", "writes to v"},
		{"for _, v := range p.ordered() { v.acted = true }; return true", "writes to v"},
		{"return slices.ContainsFunc(p.ordered(), func(v *view) bool { v.acted = true; return true })", "writes to v"},
		{"return slices.ContainsFunc(p.views, func(v view) bool { p.wake(); return true })", "calls wake, which gives no value"},
	} {
		source := planner + "func (p *planner) permits(n string) bool { " + test.body + " }"
		file, err := parser.ParseFile(token.NewFileSet(), "slip.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		functions := functionsOf([]*ast.File{file})
		said := functions["planner.permits"].changes(functions)
		if test.say == "" && len(said) > 0 || test.say != "" && !slices.Contains(said, test.say) {
			t.Errorf("%s: said is %q, want %q", test.body, said, test.say)
		}
	}
}

// function is one of the package that is looked through, known by its type and its name.
type function struct{ *ast.FuncDecl }

func functionsOf(files []*ast.File) map[string]function {
	out := map[string]function{}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				out[receiver(f)+f.Name.Name] = function{f}
			}
		}
	}
	return out
}

// receiver is the name of the type whose method it is, with a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	return fmt.Sprint(kind) + "."
}

// gives reports whether the function gives a value.
func (f function) gives() bool { return f.Type.Results != nil }

// changes are what a function that gives a value changes of what it was given.
func (f function) changes(all map[string]function) (found []string) {
	if !f.gives() || f.Body == nil {
		return nil
	}
	lent := map[string]bool{}
	if f.Recv != nil {
		borrow(f.Recv, lent)
	}
	borrow(f.Type.Params, lent)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if name, written := writes(to, lent); written {
					found = append(found, "writes to "+name)
				}
			}
			lend(n, lent, all)
		case *ast.FuncLit:
			borrow(n.Type.Params, lent)
		case *ast.RangeStmt:
			if name, ok := n.Value.(*ast.Ident); ok {
				lent[name.Name] = givesPointers(n.X, lent, all)
			}
		case *ast.IncDecStmt:
			if name, written := writes(n.X, lent); written {
				found = append(found, "writes to "+name)
			}
		case *ast.CallExpr:
			if change := calls(n, lent, all); change != "" {
				found = append(found, change)
			}
		}
		return true
	})
	return found
}

// borrow notes the names of what a function was given and does not own: what it would change by
// them is seen by others.
func borrow(fields *ast.FieldList, lent map[string]bool) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			lent[name.Name] = shares(field.Type)
		}
	}
}

// shares reports whether values of a type share what they hold.
func shares(kind ast.Expr) bool {
	switch kind := kind.(type) {
	case *ast.StarExpr, *ast.MapType:
		return true
	case *ast.ArrayType:
		return kind.Len == nil
	}
	return false
}

// lend notes names for parts of what was lent.
func lend(n *ast.AssignStmt, lent map[string]bool, all map[string]function) {
	if len(n.Lhs) != len(n.Rhs) {
		return
	}
	for i, to := range n.Lhs {
		if name, ok := to.(*ast.Ident); ok {
			lent[name.Name] = isLent(n.Rhs[i], lent, all)
		}
	}
}

// isLent reports whether an expression gives a part of what was lent, rather than a copy.
func isLent(x ast.Expr, lent map[string]bool, all map[string]function) bool {
	switch x := x.(type) {
	case *ast.UnaryExpr:
		return x.Op == token.AND && lent[root(x.X)]
	case *ast.CallExpr:
		return givesPointers(x, lent, all)
	case *ast.StarExpr:
		return false
	}
	return lent[root(x)]
}

// givesPointers reports whether an expression asks what was lent for a pointer, or for a list of them.
func givesPointers(x ast.Expr, lent map[string]bool, all map[string]function) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && lent[root(selector.X)] && slices.ContainsFunc(named(selector.Sel.Name, all), func(f function) bool {
		if !f.gives() {
			return false
		}
		kind := f.Type.Results.List[0].Type
		if list, ok := kind.(*ast.ArrayType); ok {
			kind = list.Elt
		}
		_, pointer := kind.(*ast.StarExpr)
		return pointer
	})
}

// writes reports whether an assignment goes to a part of what was lent, and of what.
func writes(to ast.Expr, lent map[string]bool) (name string, written bool) {
	if _, plain := to.(*ast.Ident); plain {
		return "", false
	}
	name = root(to)
	return name, lent[name]
}

// rewriting are functions that write to the list or the map that they get first.
var rewriting = []string{
	"append", "clear", "copy", "delete", "slices.Compact", "slices.CompactFunc", "slices.Delete", "slices.DeleteFunc", "slices.Insert", "slices.Replace",
	"slices.Reverse", "slices.Sort", "slices.SortFunc", "slices.SortStableFunc", "maps.Copy", "maps.DeleteFunc",
}

// calls is what a call changes of what was lent, empty where it cannot.
func calls(call *ast.CallExpr, lent map[string]bool, all map[string]function) string {
	name := called(call.Fun)
	if slices.Contains(rewriting, name) && len(call.Args) > 0 && lent[root(call.Args[0])] {
		return "passes what is not its own to " + name
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !lent[root(selector.X)] {
		return ""
	}
	if commands := named(selector.Sel.Name, all); len(commands) > 0 && !slices.ContainsFunc(commands, function.gives) {
		return "calls " + selector.Sel.Name + ", which gives no value"
	}
	return ""
}

// called is the name of a function, with that of its package.
func called(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok {
			return of.Name + "." + x.Sel.Name
		}
	}
	return ""
}

// named are the methods of a name, of whatever type.
func named(name string, all map[string]function) (out []function) {
	for _, f := range all {
		if f.Recv != nil && f.Name.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// root is the name at which a selection begins; empty where that is a call.
func root(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return root(x.X)
	case *ast.IndexExpr:
		return root(x.X)
	case *ast.SliceExpr:
		return root(x.X)
	case *ast.ParenExpr:
		return root(x.X)
	case *ast.StarExpr:
		return root(x.X)
	}
	return ""
}
