package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const versionsPage = "docs/reference/versions.md"

// testLink is a test that a page names, and the file that it says to find it in.
var testLink = regexp.MustCompile("\\[`(Test[A-Za-z0-9]+)`\\]\\(([^)]+)\\)")

// TestVersions holds the page of versions to what it speaks of: each test that it names is where it says,
// and versions are those that the tests run, that the chart asks for, and whose chart is kept.
func TestVersions(t *testing.T) {
	page := read(t, versionsPage)
	named := testLink.FindAllStringSubmatch(page, -1)
	if len(named) < 10 {
		t.Errorf("it names %d tests", len(named))
	}
	for _, link := range named {
		if file := filepath.Join(filepath.Dir(versionsPage), link[2]); !strings.Contains(read(t, file), "\nfunc "+link[1]+"(t *testing.T)") {
			t.Errorf("%s is not in %s", link[1], file)
		}
	}
	oldest := found(t, "tools/kubernetes131/go.mod", `k8s\.io/kubernetes v([\d.]+) `)
	asked := found(t, "charts/ingress-daemonset-controller/Chart.yaml", `kubeVersion: ">=(\d+\.\d+)\.0-0"`)
	if oldest != asked+".0" {
		t.Errorf("the chart asks for %s, and the oldest that is tested is %s", asked, oldest)
	}
	for _, line := range []string{
		"| Kubernetes | " + asked + ",",
		"| " + found(t, "tools/kubernetes/go.mod", `k8s\.io/kubernetes v([\d.]+) `) + " ([tools/kubernetes]",
		" " + oldest + " ([tools/kubernetes131]",
		"| " + found(t, "tools/helm/go.mod", `helm\.sh/helm/v4 v([\d.]+) `) + " ([tools/helm]",
		" " + found(t, "tools/helm3/go.mod", `helm\.sh/helm/v3 v([\d.]+) `) + " ([tools/helm3]",
		" " + found(t, "tools/conformance/go.mod", `=> sigs\.k8s\.io/gateway-api v([\d.]+)`) + " ([tools/conformance]",
		"The release before is " + keptChart(t) + ".",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%s does not say %q", versionsPage, line)
		}
	}
}

// found is what the group of a pattern matches in a file.
func found(t *testing.T, file, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
	if match == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return match[1]
}

// keptChart is the version of the release before, whose chart is kept.
func keptChart(t *testing.T) string {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(root, "test", "chart", "testdata", "v*.tgz"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept are %v, %v", kept, err)
	}
	return strings.TrimSuffix(filepath.Base(kept[0]), ".tgz")
}
