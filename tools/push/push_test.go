package main

import (
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
)

// serve is a registry, as host and port.
func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestPushImage(t *testing.T) {
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := images.Write(archive, images.Product, image); err != nil {
		t.Fatal(err)
	}
	pushed := serve(t) + "/ingress/controller:v1"
	if err := push(t.Context(), archive, pushed, ""); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(pushed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Head(reference)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := image.Digest(); err != nil || got.Digest != want {
		t.Errorf("there is %s, want %s, %v", got.Digest, want, err)
	}
}

func TestPushChart(t *testing.T) {
	repository := "oci://" + serve(t) + "/charts"
	if err := pushChart(t.Context(), "../..", repository); err != nil {
		t.Fatal(err)
	}
	out, err := helm.Command(t.Context(), "../..", "show", "chart", repository+"/ingress-daemonset-controller", "--plain-http").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "name: ingress-daemonset-controller") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBadInput: what is wrong is said before anything is done.
func TestBadInput(t *testing.T) {
	for want, test := range map[string]struct{ archive, image, chart string }{
		"say where to": {},
		"IMAGE: could not parse reference: Registry/Image:":         {image: "Registry/Image:"},
		"reading none.tar, which make image writes: ":               {archive: "none.tar", image: "registry.example.com/a:v1"},
		"CHART=registry.example.com: must be a registry and a path": {chart: "registry.example.com"},
	} {
		if err := push(t.Context(), test.archive, test.image, test.chart); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", test, err, want)
		}
	}
}
