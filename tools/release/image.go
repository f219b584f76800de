package main

import (
	"context"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
)

func (r *release) imageFile() string { return r.named(product, "_image.tar") }

// packImage packs the commands that run in a cluster into one image for each platform.
func (r *release) packImage(ctx context.Context) error {
	var all []v1.Image
	var programs []string
	for _, p := range r.nodes {
		var folder string
		for _, command := range []string{"controller", "healthchecker", "proxy"} {
			file, err := r.build(ctx, command, p)
			if err != nil {
				return err
			}
			folder = filepath.Dir(file)
			programs = append(programs, file)
		}
		image, err := images.Commands(folder, p.arch)
		if err != nil {
			return err
		}
		all = append(all, image)
	}
	if err := images.WriteIndex(r.path(r.imageFile()), r.reference(), all...); err != nil {
		return err
	}
	return r.writeBOM(product, programs)
}
