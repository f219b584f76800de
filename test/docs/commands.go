// Package docs tests the documentation against the code: links, examples, commands, reasons and
// metrics.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)[^\n]*\n(.*?)^ *```[ ]*$")
	code  = regexp.MustCompile("`[^`]+`")
	// whole is inline code that is a command line, and not the name of a command.
	whole = regexp.MustCompile(`^(make [a-z]|kubectl ids [a-z]|kubectl-ids [a-z]|(kubectl|helm|curl|skopeo|go) .* -)`)
	// comment is what stands behind a command.
	comment = regexp.MustCompile(`\s+# .*$`)
	spaces  = regexp.MustCompile(`\s+`)
)

// Pages are all Markdown files of a project, by their path in it.
func Pages(root string) (map[string]string, error) {
	out := map[string]string{}
	for _, top := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			out[name] = string(content)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Blocks are the fenced blocks of a page in one of the languages.
func Blocks(page string, languages ...string) []string {
	var out []string
	for _, found := range fence.FindAllStringSubmatch(page, -1) {
		if slices.Contains(languages, found[2]) {
			out = append(out, strings.ReplaceAll("\n"+found[3], "\n"+found[1], "\n"))
		}
	}
	return out
}

// Followed are the pages that test/e2e follows from their first command line to their last.
var Followed = []string{"docs/quickstart.md"}

// Commands are the command lines of a page: those of its blocks of shell, and whole
// ones in its text.
func Commands(page string) []string {
	out := Lines(page)
	for _, found := range code.FindAllString(fence.ReplaceAllString(page, ""), -1) {
		if command := tidy(strings.Trim(found, "`")); whole.MatchString(command) {
			out = append(out, command)
		}
	}
	return out
}

// Lines are the command lines of a page's blocks of shell, in their order.
func Lines(page string) []string {
	var out []string
	for _, block := range Blocks(page, "sh", "console") {
		block = strings.ReplaceAll(block, "\\\n", " ")
		prompt := strings.Contains(block, "\n$ ")
		for line := range strings.Lines(block) {
			command, prompted := strings.CutPrefix(line, "$ ")
			if prompted == prompt && strings.TrimSpace(command) != "" && !strings.HasPrefix(command, "#") {
				out = append(out, tidy(command))
			}
		}
	}
	return out
}

// elsewherePage has the command lines of followed pages that cannot run where the tests do.
const elsewherePage = "test/docs/elsewhere.md"

// elsewhereRow is a row of its table. A bar in a command is written \|.
var elsewhereRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| `([^`]+)` \\|$")

// Elsewhere are those command lines, each with what is run in its place, of the project whose folder root is.
func Elsewhere(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, elsewherePage))
	if err != nil {
		return nil, err
	}
	bars, out := strings.NewReplacer(`\|`, "|"), map[string]string{}
	for _, row := range elsewhereRow.FindAllStringSubmatch(string(page), -1) {
		out[bars.Replace(row[1])] = bars.Replace(row[2])
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(out) {
		return nil, fmt.Errorf("%s has %d rows, of which %d can be read", elsewherePage, rows, len(out))
	}
	return out, nil
}

func tidy(command string) string {
	return spaces.ReplaceAllString(comment.ReplaceAllString(strings.TrimSpace(command), ""), " ")
}
