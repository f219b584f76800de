package images

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Commands builds the product's own image for an architecture, named as Go does:
// each program of the folder, statically linked, at the image's root, run as the user
// nonroot (65532). No entrypoint is set: a pod names the command that it runs. One that is
// called proxy binds low ports, where its container may.
func Commands(binDir, arch string, env ...string) (v1.Image, error) {
	programs, err := os.ReadDir(binDir)
	if err != nil {
		return nil, fmt.Errorf("commands image: %w", err)
	}
	t := baseTree()
	count := len(t)
	for _, p := range programs {
		if p.Type().IsRegular() {
			t.program("/"+p.Name(), filepath.Join(binDir, p.Name()))
		}
	}
	if len(t) == count {
		return nil, fmt.Errorf("commands image: no programs in %s", binDir)
	}
	if _, is := t["/proxy"]; is {
		t.bindLowPorts("/proxy")
	}
	return build(v1.Config{User: "65532:65532", WorkingDir: "/", Env: append([]string{"PATH=/"}, env...)}, arch, t)
}
