package images

import (
	"context"
	"fmt"
	"os"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Cheeses builds the images of the guide to Ingresses, by the names of cheeses: each serves the picture of one at
// port 80, as the user nonroot (65532). They differ in the argument alone.
func Cheeses(ctx context.Context) (map[string]v1.Image, error) {
	buildDir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(buildDir)
	t := baseTree()
	const program = "/cheese"
	if err := t.addStatic(ctx, program, packagePath+"cheese", buildDir); err != nil {
		return nil, err
	}
	t.bindLowPorts(program)
	out := map[string]v1.Image{}
	for _, name := range []string{"cheddar", "stilton", "wensleydale"} {
		config := v1.Config{User: "65532:65532", Entrypoint: []string{program, name}}
		if out[name], err = build(config, runtime.GOARCH, t); err != nil {
			return nil, fmt.Errorf("image of %s: %w", name, err)
		}
	}
	return out, nil
}
