package api

import (
	"os"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// TestEKSManifests: the IngressDaemonSets of docs/guides/eks.md may be applied as they are. test/targets, which follows that
// page, has no policies.
func TestEKSManifests(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/eks.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range docs.Blocks(string(page), "yaml") {
		for document := range strings.SplitSeq(block, "\n---\n") {
			if !strings.Contains(document, "kind: IngressDaemonSet\n") {
				continue
			}
			found++
			if got := attempt(t.Context(), patched(document, `{metadata: {namespace: default}}`)); got.err != nil {
				t.Errorf("%v\n%s", got.err, document)
			}
		}
	}
	if found != 2 {
		t.Errorf("the page shows %d IngressDaemonSets, and there are to be two", found)
	}
}
