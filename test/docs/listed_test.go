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
// runs, and nothing else there: that test starts too late to say so. Pages that are followed whole need no list.
func TestListed(t *testing.T) {
	shown := map[string]string{}
	for name, page := range pages(t) {
		if slices.Contains(Followed, name) {
			continue
		}
		for _, command := range Commands(page) {
			shown[command] = name
		}
	}
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

// TestElsewhere lets each line that is replaced stand on a page that is followed, and each such page be there.
func TestElsewhere(t *testing.T) {
	instead, err := Elsewhere(root)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, name := range Followed {
		lines := Lines(read(t, name))
		if len(lines) == 0 {
			t.Errorf("%s has no command line", name)
		}
		shown = append(shown, lines...)
	}
	for command, run := range instead {
		if !slices.Contains(shown, command) {
			t.Errorf("no page that is followed shows %s, which %s lists", command, elsewherePage)
		}
		if run == command {
			t.Errorf("%s has %s run in its own place", elsewherePage, command)
		}
	}
}

// TestSlipsOfElsewhere: a row that cannot be read is an error, and bars may stand in commands.
func TestSlipsOfElsewhere(t *testing.T) {
	row := elsewhereRow.FindStringSubmatch("| `a \\| b` | because | `c` |")
	if len(row) != 3 || row[1] != `a \| b` || row[2] != "c" {
		t.Errorf("read of a row is %q", row)
	}
	for _, broken := range []string{"| `a` | because | |", "| `a` | `c` |", "| a | because | `c` |"} {
		if elsewhereRow.MatchString(broken) {
			t.Errorf("%s is taken for a row", broken)
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
