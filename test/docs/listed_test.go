package docs

import (
	"go/ast"
	"slices"
	"testing"
)

const (
	runs          = "test/e2e/documented_test.go"
	sessionScript = "docs/session/session.sh"
)

// TestListed finds every command line of the pages in the list of those that test/e2e
// runs, or among those that a page's own test runs, and nothing else there: these tests start too late to say so.
func TestListed(t *testing.T) {
	shown := map[string]string{}
	all := pages(t)
	for name, page := range all {
		played := PlayedCommands(name, page)
		for _, command := range Commands(page) {
			_, instead := Instead[command]
			if !instead && !slices.Contains(played, command) {
				shown[command] = name
			}
		}
	}
	for name, headings := range Played {
		for _, heading := range headings {
			if len(Commands(Section(all[name], heading))) == 0 {
				t.Errorf("%s has no commands under %q", name, heading)
			}
		}
	}
	shownAnywhere(t, all)
	for _, command := range Commands("```sh\n" + read(t, sessionScript) + "```\n") {
		shown[command] = sessionScript
	}
	listed := map[string]bool{}
	for _, command := range listedCommands(t) {
		listed[command] = true
		if shown[command] == "" {
			t.Errorf("no page shows %s, which %s lists", command, runs)
		}
	}
	for command, page := range shown {
		if !listed[command] {
			t.Errorf("%s shows a command that %s does not list: %s", page, runs, command)
		}
	}
}

// shownAnywhere finds each command line that something else is run for on a page.
func shownAnywhere(t *testing.T, all map[string]string) {
	t.Helper()
	var commands []string
	for _, page := range all {
		commands = append(commands, Commands(page)...)
	}
	for command, instead := range Instead {
		if !slices.Contains(commands, command) {
			t.Errorf("no page shows %s", command)
		}
		if instead.By == "" {
			t.Errorf("it is not said what %s is tested by", command)
		}
	}
}

// listedCommands are the fields documented of the steps, and the keys of the map elsewhere.
func listedCommands(t *testing.T) []string {
	t.Helper()
	var out []string
	add := func(e ast.Expr) {
		if value, ok := text(e); ok {
			out = append(out, value)
		}
	}
	inspect(t, runs, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "documented" {
				add(n.Value)
			}
		case *ast.ValueSpec:
			if n.Names[0].Name == "elsewhere" {
				for _, element := range n.Values[0].(*ast.CompositeLit).Elts {
					add(element.(*ast.KeyValueExpr).Key)
				}
			}
		}
	})
	return mustFind(t, runs, out)
}
