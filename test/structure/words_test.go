package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stumbles are words on which a native reader stumbles, and what to write instead.
var stumbles = map[*regexp.Regexp]string{
	regexp.MustCompile(`^\w+(, \w+| and \w+)* (is|are) whether\b`): "a function reports whether, and a field says whether",
	regexp.MustCompile(`\bwithout that (a|an|its|the|they)\b`):     "write before, or without and a noun",
}

// TestComments reads the comments of what is shipped, and of what tests it, for such words.
func TestComments(t *testing.T) {
	read := 0
	for _, p := range packages(t) {
		files, err := os.ReadDir(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".go") || strings.HasPrefix(file.Name(), "zz_generated") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file.Name()), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range parsed.Comments {
				read++
				stumbled(t, filepath.Join(p.path(), file.Name()), group)
			}
		}
	}
	if read < 1000 {
		t.Errorf("%d comments were read: this test looks in the wrong place", read)
	}
}

func stumbled(t *testing.T, file string, group *ast.CommentGroup) {
	text := group.Text()
	for pattern, instead := range stumbles {
		if found := pattern.FindString(text); found != "" {
			t.Errorf("%s says %q: %s", file, found, instead)
		}
	}
}
