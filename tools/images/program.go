package images

import (
	"fmt"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Program builds the image of one statically linked program of this machine, which it runs.
func Program(file string) (v1.Image, error) {
	inside := "/" + filepath.Base(file)
	t := baseTree()
	t.program(inside, file)
	image, err := build(v1.Config{Entrypoint: []string{inside}}, runtime.GOARCH, t)
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", file, err)
	}
	return image, nil
}
