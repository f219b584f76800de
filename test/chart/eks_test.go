package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// TestEKSValues renders the chart with the values of docs/guides/eks.md: its schema knows them all, and the controller
// gets the flags and the account that the page says.
func TestEKSValues(t *testing.T) {
	page := string(readFile(t, filepath.Join(root, "docs/guides/eks.md")))
	for _, block := range docs.Blocks(page, "yaml") {
		if !strings.Contains(block, "requireGroupTag") {
			continue
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
		out := template(t, "--values", file)
		for _, want := range []string{
			"registry.example.com/ingress-daemonset-controller:v1", "eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/ingress-daemonset-controller",
			"--require-group-tag", "--detach-groups-tagged=ingressdaemonsets.mumoshu.github.io/managed=true", "--cloud=aws", "--aws-region=eu-central-1", `- "--detach"`,
		} {
			if !strings.Contains(out, want) {
				t.Errorf("the chart makes no %q of the page's values", want)
			}
		}
		return
	}
	t.Error("docs/guides/eks.md shows no values")
}
