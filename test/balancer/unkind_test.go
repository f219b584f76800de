package balancer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// The guide has a manifest that the case of its flows can run.
func TestRecommendedManifest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", guide))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := recommended(page)
	if err != nil {
		t.Fatal(err)
	}
	if u := spec.UpdateStrategy.RollingUpdate; u.FailHealthChecks != v1alpha1.FailAfterDetachment || u.AnnotateNodeToDetach == nil || u.WaitForDetachmentByAnnotatedTimestamp == nil {
		t.Errorf("it does not detach nodes before health checks fail: %+v", u)
	}
	if _, err := recommended([]byte("# Another page\n")); err == nil {
		t.Error("a page without the manifest has one")
	}
}
