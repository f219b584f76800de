// Package docs tests the documentation against the code: links, examples, commands, reasons and
// metrics.
package docs

import (
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
	// anyHeading begins a section.
	anyHeading = regexp.MustCompile(`(?m)^#{1,6} `)
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

// Section is what stands under a heading of a page, up to the next of any level, and empty where there is no
// such heading.
func Section(page, heading string) string {
	// Lines of code may begin as headings do.
	hidden := fence.ReplaceAllStringFunc(page, func(block string) string { return strings.ReplaceAll(block, "\n#", "\n ") })
	found := regexp.MustCompile(`(?m)^#{1,6} ` + regexp.QuoteMeta(heading) + `$`).FindStringIndex(hidden)
	if found == nil {
		return ""
	}
	rest := page[found[1]:]
	if next := anyHeading.FindStringIndex(hidden[found[1]:]); next != nil {
		rest = rest[:next[0]]
	}
	return rest
}

// Commands are the command lines of a page: those of its blocks of shell, and whole
// ones in its text.
func Commands(page string) []string {
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
	for _, found := range code.FindAllString(fence.ReplaceAllString(page, ""), -1) {
		if command := tidy(strings.Trim(found, "`")); whole.MatchString(command) {
			out = append(out, command)
		}
	}
	return out
}

func tidy(command string) string {
	return spaces.ReplaceAllString(comment.ReplaceAllString(strings.TrimSpace(command), ""), " ")
}
