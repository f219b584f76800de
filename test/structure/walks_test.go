package structure

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walks are the headings in CONTRIBUTING under which a walk stands.
var walks = []string{"### From kubectl apply to pod replaced", "### From pod ready to target registered", "### From an Ingress applied to a request served"}

// longest is how many stops a newcomer can keep in mind.
const longest = 10

// stop is a place of a walk: a function or a type of a file, and what happens there.
type stop struct{ file, name, happens string }

// TestWalks lets each walk lead through at most ten files, none of them twice, and to what they
// declare.
func TestWalks(t *testing.T) {
	content, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range walks {
		stops, err := stopsOf(string(content), heading)
		if err == nil {
			err = errors.Join(walkable(stops), leads(t, stops))
		}
		if err != nil {
			t.Errorf("CONTRIBUTING.md, %q:\n%v", heading, err)
		}
	}
}

var (
	numbered = regexp.MustCompile(`(?m)^(\d+)\. `)
	written  = regexp.MustCompile("^\\[(\\S+\\.go)\\]\\((\\S+)\\), `([^`]+)`: ([^\n]+\\.)$")
)

// stopsOf are the stops of the walk under a heading.
func stopsOf(page, heading string) (stops []stop, err error) {
	_, walk, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		return nil, errors.New("there is no such walk")
	}
	walk, _, _ = strings.Cut(walk, "\n##")
	lines := numbered.FindAllStringIndex(walk, -1)
	for i, at := range lines {
		end := len(walk)
		if i+1 < len(lines) {
			end = lines[i+1][0]
		}
		item, _, _ := strings.Cut(walk[at[1]:end], "\n\n")
		text := strings.Join(strings.Fields(item), " ")
		parts := written.FindStringSubmatch(text)
		if parts == nil || parts[1] != parts[2] || strings.Contains(parts[4], ". ") {
			return nil, fmt.Errorf("stop %d is not written as [file](file), `name`: one sentence\n%s", i+1, text)
		}
		stops = append(stops, stop{parts[1], parts[3], parts[4]})
	}
	return stops, nil
}

// walkable is what makes a walk too long, or one that leads in a circle.
func walkable(stops []stop) (err error) {
	if len(stops) < 2 || len(stops) > longest {
		err = fmt.Errorf("it has %d stops: leave out what happens on the way, so that there are at most %d", len(stops), longest)
	}
	visited := map[string]bool{}
	for _, s := range stops {
		if visited[s.file] {
			err = errors.Join(err, fmt.Errorf("%s is visited twice", s.file))
		}
		visited[s.file] = true
	}
	return err
}

// leads is which stops are not there.
func leads(t *testing.T, stops []stop) (err error) {
	for _, s := range stops {
		file := filepath.Join("..", "..", filepath.FromSlash(s.file))
		if _, missing := os.Stat(file); missing != nil {
			err = errors.Join(err, fmt.Errorf("there is no %s", s.file))
			continue
		}
		if !declares(parse(t, file), s.name) {
			err = errors.Join(err, fmt.Errorf("%s declares no %s", s.file, s.name))
		}
	}
	return err
}

// declares reports whether a file has a function, a method, with its type and a dot, or a type of a name.
func declares(file *ast.File, name string) bool {
	if _, found := functionsOf([]*ast.File{file})[name]; found {
		return true
	}
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		for i := 0; ok && i < len(types.Specs); i++ {
			if spec, ok := types.Specs[i].(*ast.TypeSpec); ok && spec.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// TestSlipsOfWalks: what makes a walk one that cannot be gone is found.
func TestSlipsOfWalks(t *testing.T) {
	const first = "1. [map_test.go](map_test.go), `table`: it is made.\n"
	for _, test := range []struct{ walk, say string }{
		{first + "2. [rules_test.go](rules_test.go), `rule`: it\n   is held.\n\ntext\n", ""},
		{first, "it has 1 stops"},
		{strings.Repeat(first, longest+1), "it has 11 stops"},
		{first + "2. [map_test.go](map_test.go), `place`: it is held.\n", "map_test.go is visited twice"},
		{first + "2. [gone_test.go](gone_test.go), `gone`: it is held.\n", "there is no test/structure/gone_test.go"},
		{first + "2. [rules_test.go](rules_test.go), `gone`: it is held.\n", "test/structure/rules_test.go declares no gone"},
		{first + "2. [rules_test.go](rules_test.go), `decides`: it is held.\n", "test/structure/rules_test.go declares no decides"},
		{first + "2. [rules_test.go](rules_test.go), `rule.decides`: it is held.\n", ""},
		{first + "2. [rules_test.go](map_test.go), `rule`: it is held.\n", "stop 2 is not written as"},
		{first + "2. [rules_test.go](rules_test.go): it is held.\n", "stop 2 is not written as"},
		{first + "2. [rules_test.go](rules_test.go), `rule`: it is held. It stands.\n", "stop 2 is not written as"},
	} {
		page := "\n### Walk\n" + strings.ReplaceAll(strings.ReplaceAll(test.walk, "[", "[test/structure/"), "](", "](test/structure/") + "## Next\n"
		stops, err := stopsOf(page, "### Walk")
		if err == nil {
			err = errors.Join(walkable(stops), leads(t, stops))
		}
		if said := fmt.Sprint(err); test.say == "" && err != nil || !strings.Contains(said, test.say) {
			t.Errorf("%s: said is %q, want %q", test.walk, said, test.say)
		}
	}
}
