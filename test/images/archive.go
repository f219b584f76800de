package images

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Write stores the image under a reference in an archive that is an OCI image layout
// and, for older tools, what docker save writes: ctr, docker, podman and skopeo read it.
func Write(file, ref string, image v1.Image) error {
	if err := write(file, ref, image); err != nil {
		return fmt.Errorf("writing image %s to %s: %w", ref, file, err)
	}
	return nil
}

func write(file, ref string, image v1.Image) error {
	members, err := membersOf(image, ref)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	writer := tar.NewWriter(out)
	for _, m := range members {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Mode: 0o644, Size: int64(len(m.content)), ModTime: epoch}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(m.content); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return out.Close()
}

type member struct {
	name    string
	content []byte
}

func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// membersOf returns the image's blobs, then the files that name them.
func membersOf(image v1.Image, ref string) ([]member, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	rawManifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	rawConfig, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	index, err := indexOf(image, ref)
	if err != nil {
		return nil, err
	}
	config := blobName(manifest.Config.Digest)
	layers, err := layersOf(image)
	if err != nil {
		return nil, err
	}
	var layerNames []string
	for _, l := range layers {
		layerNames = append(layerNames, l.name)
	}
	docker, err := json.Marshal([]map[string]any{{"Config": config, "RepoTags": []string{ref}, "Layers": layerNames}})
	if err != nil {
		return nil, err
	}
	return append(layers,
		member{config, rawConfig},
		member{blobName(digest), rawManifest},
		member{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		member{"index.json", index},
		member{"manifest.json", docker},
	), nil
}

func layersOf(image v1.Image) ([]member, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	var members []member
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		reader, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		reader.Close()
		if err != nil {
			return nil, err
		}
		members = append(members, member{blobName(digest), content})
	}
	return members, nil
}

func indexOf(image v1.Image, ref string) ([]byte, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform: config.Platform(),
		Annotations: map[string]string{
			"org.opencontainers.image.ref.name": tag.TagStr(),
			"io.containerd.image.name":          nodeName(tag),
		},
	}}).RawManifest()
}

// nodeName is the name by which a node knows the image: whole, as the kubelet asks for it.
func nodeName(tag name.Tag) string {
	registry := tag.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + tag.RepositoryStr() + ":" + tag.TagStr()
}
