package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const pauseImage = "registry.local/pause:latest"

var registryURL = fmt.Sprintf("http://%s:%d", hostAddress, registryPort)

// PushImage makes an image available to the nodes under any reference, also
// one of a registry far away such as docker.io/library/nginx:1.29. The tarball
// is what docker save writes, or an OCI image layout.
func (c *Cluster) PushImage(ctx context.Context, ref, tarballPath string) error {
	if !c.state.Isolated {
		return errors.New("push image: this cluster has no real nodes and no registry")
	}
	scratch, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	image, err := openImage(tarballPath, scratch)
	if err != nil {
		return fmt.Errorf("push image %s from %s: %w", ref, tarballPath, err)
	}
	return c.push(ctx, ref, image)
}

func (c *Cluster) push(ctx context.Context, ref string, image v1.Image) error {
	target, err := localReference(ref)
	if err != nil {
		return fmt.Errorf("push image: %w", err)
	}
	transport := &http.Transport{DialContext: c.DialContext}
	defer transport.CloseIdleConnections()
	if err := remote.Write(target, image, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	return nil
}

// localReference is where the cluster's registry keeps an image: the name of
// the registry it seems to come from is part of the repository's name.
func localReference(ref string) (name.Reference, error) {
	parsed, err := name.NewTag(ref)
	if err != nil {
		return nil, err
	}
	registry := parsed.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	registry = strings.ReplaceAll(registry, ":", "_") // as registry/main.go does
	local := fmt.Sprintf("%s:%d/%s/%s:%s", hostAddress, registryPort, registry, parsed.RepositoryStr(), parsed.TagStr())
	return name.NewTag(local, name.Insecure)
}

// openImage reads an image from a tarball. An OCI image layout is unpacked
// into the scratch folder, where the image then is read from.
func openImage(path, scratch string) (v1.Image, error) {
	image, err := tarball.ImageFromPath(path, nil)
	if err == nil {
		return image, nil
	}
	if err := unpack(path, scratch); err != nil {
		return nil, err
	}
	index, layoutErr := layout.ImageIndexFromPath(scratch)
	if layoutErr != nil {
		return nil, fmt.Errorf("neither of docker save's format (%w) nor an OCI image layout (%w)", err, layoutErr)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%d images in the OCI image layout, must be one", len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// unpack extracts the regular files of a tar archive into a folder.
func unpack(path, folder string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read tar archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(filepath.Clean(header.Name)), 0o755); err != nil {
			return err
		}
		if err := extract(root, filepath.Clean(header.Name), archive); err != nil {
			return err
		}
	}
}

func extract(root *os.Root, name string, content io.Reader) error {
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, content)
	return err
}

// pushPauseImage builds the image that every pod's sandbox runs, and waits for
// the registry, which is just starting, to take it.
func (c *Cluster) pushPauseImage(ctx context.Context, programs *binaries) error {
	image, err := imageOf(programs.path("pause"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := c.push(ctx, pauseImage, image)
		if err == nil || sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// imageOf is an image of one static program, which it runs.
func imageOf(program string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	file := "/" + filepath.Base(program)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		var archive bytes.Buffer
		writer := tar.NewWriter(&archive)
		header := &tar.Header{Name: file[1:], Mode: 0o755, Size: int64(len(content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(content); err != nil {
			return nil, err
		}
		return io.NopCloser(&archive), writer.Close()
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{file}
	return mutate.ConfigFile(image, config)
}
