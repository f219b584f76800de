package cluster

import (
	"archive/tar"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestOpenImage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := imageOf(program)
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for format, write := range map[string]func(*testing.T, string, v1.Image){
		"docker save":      writeDockerSave,
		"OCI image layout": writeLayout,
	} {
		t.Run(format, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "image.tar")
			write(t, archive, image)
			read, err := openImage(archive, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := read.Digest(); err != nil || got != want {
				t.Errorf("read image %v (%v), wrote %v", got, err, want)
			}
		})
	}
	if _, err := openImage(program, t.TempDir()); err == nil {
		t.Error("took a file for an image that is none")
	}
}

func writeDockerSave(t *testing.T, archive string, image v1.Image) {
	tag, err := name.NewTag("example/program:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
}

func writeLayout(t *testing.T, archive string, image v1.Image) {
	folder := t.TempDir()
	index, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := index.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	if err := writer.AddFS(os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
}
