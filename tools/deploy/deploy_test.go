package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// wanted is the image that the guide's kustomization names.
const wanted = "registry.example.com/ingress-daemonset-controller:v1"

// TestImage: of config/default with another image, by make deploy and by the guide's kustomization, the controller
// and its health checkers run from that, and nothing from the one that nobody publishes.
func TestImage(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := withImage(filepath.Join(root, "config", "default"), wanted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(deployed) })
	for name, folder := range map[string]string{"make deploy": deployed, "the guide": documented(t, root)} {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		content, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{"image: " + wanted + "\n": 1, "value: " + wanted + "\n": 1, "mumoshu/ingress-daemonset-controller:": 0} {
			if got := strings.Count(string(content), text); got != want {
				t.Errorf("%s: %q stands there %d times, and is to %d times", name, text, got, want)
			}
		}
	}
}

// documented is a folder with the kustomization that the guide shows, of this project.
func documented(t *testing.T, root string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guides", "upgrade-and-uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	const base = "https://github.com/mumoshu/ingress-daemonset-controller//config/default?ref=main"
	_, block, found := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	if !found || !strings.Contains(block, base) {
		t.Fatalf("the guide does not begin with a kustomization of %s", base)
	}
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.Replace(block, base, relative, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
