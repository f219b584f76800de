package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// figure is a line of the table.
type figure struct {
	name  string
	value int
	note  string
}

// largest are the packages of which the type with the most methods is looked for, and arrows are counted.
var largest = []string{
	"internal/rollout", "internal/rollout/controller", "internal/targets", "internal/targets/controller", "internal/detach/controller",
	"internal/kubectl", "internal/routing", "internal/routing/controller", "internal/proxy",
}

// count makes all figures.
func count(files []source) []figure {
	out := []figure{
		{"lines of production code", lines(files, product), "api, cmd and internal, without tests"},
		{"lines of test code", lines(files, productTests, tests), fmt.Sprintf("%d of them beside it, %d in test/", lines(files, productTests), lines(files, tests))},
		{"lines of tools and examples", lines(files, tools, examples), fmt.Sprintf("%d, %d", lines(files, tools), lines(files, examples))},
		{"packages of production code", packages(files, product), ""},
		{"packages in test/", packages(files, tests), ""},
		{"packages of tools and examples", packages(files, tools, examples), fmt.Sprintf("%d, %d", packages(files, tools), packages(files, examples))},
	}
	for _, folder := range largest {
		methods, name := mostMethods(files, folder)
		out = append(out, figure{"methods of the largest type of " + folder, methods, name})
	}
	for _, folder := range largest {
		arrows := graphOf(files, folder)
		out = append(out, figure{"arrows that run back inside " + folder, len(arrows.back(arrows.order())), fmt.Sprintf("of %d between its files", arrows.count())})
	}
	return append(out,
		figure{"exported names of internal", exported(files), "functions, methods, types, constants and variables"},
		figure{"calls of the clock in production code", calls(files, "Now Since Until", product), "time.Now, time.Since and time.Until"},
		figure{"time.Sleep in tests", calls(files, "Sleep", productTests, tests), fmt.Sprintf("%d beside production code, %d in test/", calls(files, "Sleep", productTests), calls(files, "Sleep", tests))},
	)
}

func in(areas []area, files []source) (out []source) {
	for _, f := range files {
		if slices.Contains(areas, f.area) {
			out = append(out, f)
		}
	}
	return out
}

func lines(files []source, areas ...area) (n int) {
	for _, f := range in(areas, files) {
		n += f.lines
	}
	return n
}

func packages(files []source, areas ...area) int {
	folders := map[string]bool{}
	for _, f := range in(areas, files) {
		folders[f.folder] = true
	}
	return len(folders)
}

// mostMethods is how many methods the type has that has most of them in a package, and what it is
// called.
func mostMethods(files []source, folder string) (most int, name string) {
	methods := map[string]int{}
	for _, f := range in([]area{product}, files) {
		for _, decl := range f.Decls {
			if method, ok := decl.(*ast.FuncDecl); ok && f.folder == folder && method.Recv != nil {
				methods[receiver(method)]++
			}
		}
	}
	for of, n := range methods {
		if n > most || n == most && of < name {
			most, name = n, of
		}
	}
	return most, name
}

// receiver is the name of the type whose method it is.
func receiver(f *ast.FuncDecl) string {
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// exported is how many names the packages of internal export, a method being one where its type is.
func exported(files []source) (n int) {
	for _, f := range in([]area{product}, files) {
		if !strings.HasPrefix(f.folder, "internal") {
			continue
		}
		for _, decl := range f.Decls {
			for _, name := range declared(decl) {
				if ast.IsExported(name) {
					n++
				}
			}
		}
	}
	return n
}

// declared are the names of a declaration, none for a method of a type that is not exported.
func declared(decl ast.Decl) (names []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil || ast.IsExported(receiver(decl)) {
			names = append(names, decl.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			names = append(names, specified(spec)...)
		}
	}
	return names
}

func specified(spec ast.Spec) (names []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		names = append(names, spec.Name.Name)
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// calls is how often functions of package time, of which these are the names, are called.
func calls(files []source, functions string, areas ...area) (n int) {
	names := strings.Fields(functions)
	for _, f := range in(areas, files) {
		imported := timeIn(f)
		ast.Inspect(f.File, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok && isOneOf(call.Fun, imported, names) {
				n++
			}
			return true
		})
	}
	return n
}

func isOneOf(function ast.Expr, imported string, names []string) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, selector.Sel.Name) {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && imported != "" && of.Name == imported
}

// timeIn is what a file calls package time, empty where it does not import it.
func timeIn(f source) string {
	for _, spec := range f.Imports {
		switch {
		case spec.Path.Value != `"time"`:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return "time"
		}
	}
	return ""
}
