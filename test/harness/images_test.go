package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
)

var imageField = regexp.MustCompile(`(?m)^\s+image: (\S+)$`)

// TestImagesOfExamples: every image that an example names is made here, since the nodes reach
// no registry but the cluster's.
func TestImagesOfExamples(t *testing.T) {
	made := []string{images.Product}
	for _, references := range proxies {
		made = append(made, references...)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example is found: %v", err)
	}
	named := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range imageField.FindAllStringSubmatch(string(content), -1) {
			named++
			if !slices.ContainsFunc(made, func(reference string) bool { return short(reference) == short(match[1]) }) {
				t.Errorf("%s names %s, which nothing makes: add it to proxies", file, match[1])
			}
		}
	}
	if named < len(files) {
		t.Errorf("%d images are named in %d examples", named, len(files))
	}
}

// short is a reference without what is added where it is left out.
func short(reference string) string {
	return strings.TrimPrefix(strings.TrimPrefix(reference, "docker.io/"), "library/")
}
