package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
)

const notesFile = "release-notes.md"

var heading = regexp.MustCompile(`(?m)^## (.*)$`)

// semantic is a version that Helm and Go understand.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// latest are version and text of a change log's first section.
func latest(file string) (version, text string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	found := heading.FindAllSubmatchIndex(content, 2)
	if len(found) == 0 {
		return "", "", fmt.Errorf("%s has no section: begin one with a line such as ## v0.1.0", file)
	}
	version, end := string(content[found[0][2]:found[0][3]]), len(content)
	if len(found) > 1 {
		end = found[1][0]
	}
	text = strings.TrimSpace(string(content[found[0][1]:end]))
	switch {
	case !semantic.MatchString(version):
		return "", "", fmt.Errorf("the first section of %s is %q: it must be a version such as v0.1.0", file, version)
	case text == "":
		return "", "", fmt.Errorf("%s says nothing about %s: write what its users should know", file, version)
	}
	return version, text, nil
}

func (r *release) writeNotes(context.Context) error {
	text := fmt.Sprintf("# %s\n\n%s\n\nThe image is `%s`.\n", r.version, r.notes, r.reference())
	return os.WriteFile(r.path(notesFile), []byte(text), 0o644)
}
