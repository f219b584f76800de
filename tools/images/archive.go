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
	"github.com/google/go-containerregistry/pkg/v1/types"
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
	return archive(file, members)
}

// WriteIndex stores images of one program for several platforms under one reference
// in an archive that is an OCI image layout: skopeo copy --all publishes it whole.
func WriteIndex(file, ref string, images ...v1.Image) error {
	if err := writeIndex(file, ref, images); err != nil {
		return fmt.Errorf("writing image %s to %s: %w", ref, file, err)
	}
	return nil
}

func writeIndex(file, ref string, images []v1.Image) error {
	var all []member
	platforms := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		blobs, err := blobsOf(image)
		if err != nil {
			return err
		}
		all = append(all, blobs...)
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		platforms = mutate.AppendManifests(platforms, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	digest, err := platforms.Digest()
	if err != nil {
		return err
	}
	raw, err := platforms.RawManifest()
	if err != nil {
		return err
	}
	named, err := indexOf(platforms, nil, ref)
	if err != nil {
		return err
	}
	return archive(file, append(all, member{blobName(digest), raw}, layoutMember, member{"index.json", named}))
}

// archive writes each member once.
func archive(file string, members []member) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	writer := tar.NewWriter(out)
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.name] {
			continue
		}
		seen[m.name] = true
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

var layoutMember = member{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}

// membersOf returns the image's blobs, then the files that name them.
func membersOf(image v1.Image, ref string) ([]member, error) {
	blobs, err := blobsOf(image)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	index, err := indexOf(image, config.Platform(), ref)
	if err != nil {
		return nil, err
	}
	layers, rest := blobs[:len(blobs)-2], blobs[len(blobs)-2:]
	var layerNames []string
	for _, l := range layers {
		layerNames = append(layerNames, l.name)
	}
	docker, err := json.Marshal([]map[string]any{{"Config": rest[0].name, "RepoTags": []string{ref}, "Layers": layerNames}})
	if err != nil {
		return nil, err
	}
	return append(blobs, layoutMember, member{"index.json", index}, member{"manifest.json", docker}), nil
}

// blobsOf are the image's layers, then its config, then its manifest.
func blobsOf(image v1.Image) ([]member, error) {
	layers, err := layersOf(image)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	rawConfig, err := image.RawConfigFile()
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
	return append(layers, member{blobName(config), rawConfig}, member{blobName(digest), rawManifest}), nil
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

// indexOf is the layout's index, which names an image, or an index of images, by the
// reference.
func indexOf(content mutate.Appendable, platform *v1.Platform, ref string) ([]byte, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, err
	}
	return mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: content, Descriptor: v1.Descriptor{
		Platform: platform,
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
