package images

import (
	"strings"
	"testing"
)

// TestNamed: containerd looks for an image under its whole name, whatever a manifest leaves out.
func TestNamed(t *testing.T) {
	for reference, want := range map[string]string{
		Product:                           Product,
		"ids:v1":                          "docker.io/library/ids:v1",
		"mumoshu/ids:v1":                  "docker.io/mumoshu/ids:v1",
		"registry.example.com:5000/ids:1": "registry.example.com:5000/ids:1",
	} {
		if got, err := Named(reference); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", reference, got, err, want)
		}
	}
	if got, err := Named("Foo/Bar:v1"); err == nil || !strings.Contains(err.Error(), "in small letters") {
		t.Errorf("%s, %v", got, err)
	}
}
