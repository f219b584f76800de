package docs

import (
	"strings"
	"testing"
)

// TestIngressGuide: what the guide shows of its files stands there, so that its commands make what a reader sees.
func TestIngressGuide(t *testing.T) {
	files := ""
	for _, name := range []string{"cheddar", "plate", "gateway"} {
		files += read(t, "examples/cheese/"+name+".yaml")
	}
	shown := 0
	for _, block := range Blocks(read(t, "docs/guides/ingress.md"), "yaml") {
		if strings.Contains(block, "apiVersion: networking.k8s.io/v1beta1\n") {
			continue
		}
		if shown++; !strings.Contains(files, strings.TrimSpace(block)) {
			t.Errorf("no file has\n%s", block)
		}
	}
	if shown < 4 {
		t.Errorf("the guide shows %d manifests", shown)
	}
}
