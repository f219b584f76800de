package chart

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// installed is a release of an older chart, as helm keeps it: with its own defaults and
// the values of whoever installed it.
func installed(t *testing.T) string {
	t.Helper()
	release := []map[string]any{{
		"name": "ingress-daemonset-controller", "namespace": "ingress-daemonset-system", "version": 1,
		"info": map[string]any{"status": "deployed"},
		"chart": map[string]any{
			"metadata": map[string]any{"apiVersion": "v2", "name": "ingress-daemonset-controller", "version": "0.0.1", "appVersion": "v0"},
			// It did not know the others.
			"values": map[string]any{"image": map[string]any{"repository": "mumoshu/ingress-daemonset-controller", "tag": ""}, "replicas": 2},
		},
		"config": map[string]any{"image": map[string]any{"repository": "registry.example.com/ingress-daemonset-controller", "tag": "v1"}, "replicas": 3},
	}}
	content, err := sigsyaml.Marshal(release)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "releases.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// newAPIServer says its version and that it has no groups of an API, which is all that
// helm asks in a dry run.
func newAPIServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := map[string]string{
			"/version": `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`,
			"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
			"/api/v1":  `{"kind":"APIResourceList","groupVersion":"v1"}`,
			"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		}[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestDocumentedUpgrade runs the guide's command on an older release: the controller and
// the health checkers get the new image, and the values of the user stay.
func TestDocumentedUpgrade(t *testing.T) {
	args, err := docs.HelmArguments(root, "upgrade", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HELM_DRIVER", "memory")
	t.Setenv("HELM_MEMORY_DRIVER_DATA", installed(t))
	out, err := run(t, append(args, "--dry-run=client", "--output=json", "--kube-apiserver="+newAPIServer(t))...)
	if err != nil {
		t.Fatal(err)
	}
	var upgraded struct{ Manifest string }
	if err := sigsyaml.Unmarshal([]byte(out), &upgraded); err != nil {
		t.Fatal(err)
	}
	made := objects(t, strings.NewReader(upgraded.Manifest))
	deployment := &unstructured.Unstructured{Object: made["Deployment ingress-daemonset-controller"]}
	const image = "registry.example.com/ingress-daemonset-controller:v2"
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 {
		t.Fatalf("containers %v", containers)
	}
	controller := containers[0].(map[string]any)
	env, _, _ := unstructured.NestedSlice(controller, "env")
	if controller["image"] != image || len(env) == 0 || env[0].(map[string]any)["value"] != image {
		t.Errorf("the controller's image is %v, the health checkers' %v, want %s", controller["image"], env, image)
	}
	if replicas, _, _ := unstructured.NestedFieldNoCopy(deployment.Object, "spec", "replicas"); replicas != float64(3) && replicas != int64(3) {
		t.Errorf("%v replicas, want those of the user, 3", replicas)
	}
	if made["NetworkPolicy ingress-daemonset-controller"] == nil {
		t.Error("what the older chart did not know is left out")
	}
}

// TestNotesOfAClone: whoever installs a clone's chart, which no release can be taken for, and names no image, is told
// that there is none.
func TestNotesOfAClone(t *testing.T) {
	if m := readMetadata(t); m.Version != "0.0.0" || m.AppVersion != "latest" {
		t.Errorf("the chart of a clone is %s, of %s", m.Version, m.AppVersion)
	}
	const warning = "nobody publishes the image that it installs,\n\n  mumoshu/ingress-daemonset-controller:latest\n"
	for set, warns := range map[string]bool{"replicas=2": true, "image.tag=v1": false, "image.digest=sha256:" + strings.Repeat("0", 64): false} {
		out, err := run(t, "install", instance, folder, "--set", set, "--dry-run=client", "--kube-apiserver="+newAPIServer(t))
		_, notes, _ := strings.Cut(out, "NOTES:\n")
		if err != nil || strings.Contains(notes, warning) != warns || !strings.Contains(notes, "The controller runs in namespace") {
			t.Errorf("%s: %v\n%s", set, err, notes)
		}
	}
}
