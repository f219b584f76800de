// Package images builds container images without a registry and without a container
// tool: those of real proxies from the machine's own Debian packages and of a guide's
// cheeses, for tests and examples, and the one of this product's commands. The same files
// make the same image, byte for byte.
package images

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

// build makes an image of one layer.
func build(config v1.Config, arch string, files tree) (v1.Image, error) {
	layer, err := files.layer()
	if err != nil {
		return nil, fmt.Errorf("image layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: epoch}}})
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Created = v1.Time{Time: epoch}
	file.Config = config
	return mutate.ConfigFile(image, file)
}
