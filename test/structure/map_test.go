package structure

import (
	"cmp"
	"flag"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
)

var update = flag.Bool("update", false, "rewrite the map of packages in CONTRIBUTING.md")

// contributing is where newcomers begin.
var contributing = filepath.Join("..", "..", "CONTRIBUTING.md")

// The map stands between these marks.
const (
	mapBegins = "<!-- map: go test ./test/structure -run TestMap -update -->\n"
	mapEnds   = "<!-- end of the map -->\n"
)

// TestMap lets CONTRIBUTING's map name every package of this repository, with its kind and the
// first sentence of its doc comment.
func TestMap(t *testing.T) {
	content, err := os.ReadFile(contributing)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), mapBegins)
	_, after, ends := strings.Cut(rest, mapEnds)
	if !begins || !ends {
		t.Fatalf("CONTRIBUTING.md has no place for the map: it stands between %q and %q", mapBegins, mapEnds)
	}
	golden.Equal(t, *update, contributing, before+mapBegins+table(places(t))+mapEnds+after)
}

// place is a line of the map.
type place struct{ path, kind, about string }

// table is the map as Markdown.
func table(lines []place) string {
	var b strings.Builder
	b.WriteString("| package | kind | |\n| --- | --- | --- |\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "| [%s](%[1]s) | %s | %s |\n", line.path, line.kind, strings.ReplaceAll(line.about, "|", `\|`))
	}
	return b.String()
}

// places are what is shipped, in the order of rules, and then what is in test/ and in tools/.
func places(t *testing.T) (out []place) {
	for _, r := range rules {
		out = append(out, place{r.path, string(r.kind), about(t, r.path)})
	}
	rest := modules(t)
	for _, p := range packages(t) {
		if !ships(p.path()) {
			rest = append(rest, place{p.path(), use(p), about(t, p.path())})
		}
	}
	slices.SortFunc(rest, func(a, b place) int { return cmp.Compare(a.path, b.path) })
	return append(out, rest...)
}

// use is the kind of a package that is not shipped.
func use(p goPackage) string {
	switch {
	case len(p.GoFiles) == 0:
		return "tests"
	case p.Name == "main":
		return "program"
	}
	return "library"
}

// modules are the folders of tools/ that are modules of their own. Those without a source say what is
// built of them.
func modules(t *testing.T) (out []place) {
	found, err := filepath.Glob(filepath.Join("..", "..", "tools", "*", "go.mod"))
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no module in tools/: %v", err)
	}
	for _, file := range found {
		folder := path.Join("tools", filepath.Base(filepath.Dir(file)))
		line := place{folder, "module", "pins the versions of what " + path.Base(folder) + " is built from."}
		sources, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
		isTest := func(name string) bool { return strings.HasSuffix(name, "_test.go") }
		switch {
		case len(sources) == 0:
		case slices.IndexFunc(sources, func(name string) bool { return !isTest(name) }) < 0:
			line = place{folder, "tests, a module", about(t, folder)}
		default:
			line = place{folder, "program, a module", about(t, folder)}
		}
		out = append(out, line)
	}
	return out
}

// opening is how a doc comment begins. The rest of the sentence says what the package is or does.
var opening = regexp.MustCompile(`^(Package|Command) (\S+) `)

// about is the first sentence of a package's doc comment, without the name of the package.
func about(t *testing.T, folder string) string {
	files, name := documented(t, folder)
	if len(files) != 1 {
		t.Errorf("%s has %d doc comments: write one", folder, len(files))
		return ""
	}
	sentence := new(doc.Package).Synopsis(files[0])
	want := "Package " + name + " "
	if name == "main" {
		want = "Command " + path.Base(folder) + " "
	}
	if opening.FindString(sentence) != want || !strings.HasSuffix(sentence, ".") {
		t.Errorf("the doc comment of %s begins with %q: write a sentence that begins with %q", folder, sentence, want)
	}
	return strings.TrimPrefix(sentence, want)
}

// documented are the doc comments of a package, those of its tests included, and its name.
func documented(t *testing.T, folder string) (comments []string, name string) {
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		if name == "" || !strings.HasSuffix(parsed.Name.Name, "_test") {
			name = parsed.Name.Name
		}
		if parsed.Doc != nil {
			comments = append(comments, parsed.Doc.Text())
		}
	}
	return comments, name
}

// inOrder begins a package's list of its files.
const inOrder = "Its files, in the order in which to open them:"

var fileName = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// TestFiles lets a package that lists its files list all of them, and no others.
func TestFiles(t *testing.T) {
	lists := 0
	for _, p := range packages(t) {
		comments, _ := documented(t, p.path())
		_, list, is := strings.Cut(strings.Join(comments, ""), inOrder)
		if !is {
			continue
		}
		lists++
		listed := fileName.FindAllString(list, -1)
		for _, file := range p.GoFiles {
			if file != "doc.go" && !slices.Contains(listed, file) {
				t.Errorf("the doc comment of %s does not list %s", p.path(), file)
			}
		}
		for _, file := range listed {
			if !slices.Contains(p.GoFiles, file) {
				t.Errorf("the doc comment of %s lists %s, which is not there", p.path(), file)
			}
		}
	}
	if lists < 10 {
		t.Errorf("%d packages list their files: this test looks for another sentence", lists)
	}
}
