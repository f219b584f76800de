package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProxyBindsLowPorts: the proxy has the file capability in the image, and no other command.
func TestProxyBindsLowPorts(t *testing.T) {
	programs := t.TempDir()
	for _, name := range []string{"controller", "healthchecker", "proxy"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image, err := Commands(programs, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	got := map[string]string{}
	for reader := tar.NewReader(content); ; {
		file, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if value, has := file.PAXRecords["SCHILY.xattr.security.capability"]; has {
			got[file.Name] = value
		}
	}
	// What setcap cap_net_bind_service=ep writes.
	want := map[string]string{"proxy": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
