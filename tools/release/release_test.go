package main_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
	"sigs.k8s.io/yaml"
)

const (
	root    = "../.."
	product = "ingress-daemonset-controller"
)

// TestRelease makes a release, for fewer platforms, and looks at what is in it.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	makeRelease(t, dir)
	first := sums(t, dir)
	version := versionOf(t, dir)
	t.Run("checksums", func(t *testing.T) { checkSums(t, dir, first) })
	t.Run("image", func(t *testing.T) { checkImage(t, dir, version) })
	t.Run("bills of materials", func(t *testing.T) {
		checkBOM(t, filepath.Join(dir, product+"_"+version+".cdx.json"))
		checkBOM(t, filepath.Join(dir, "kubectl-ids_"+version+".cdx.json"))
	})
	t.Run("plugin", func(t *testing.T) { checkPlugin(t, dir, version) })
	t.Run("manifests and chart", func(t *testing.T) { checkInstallation(t, dir, version) })
	t.Run("made again", func(t *testing.T) {
		mine := filepath.Join(dir, "mine")
		if err := os.WriteFile(mine, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		makeRelease(t, dir)
		again := sums(t, dir)
		for name, sum := range first {
			// In the chart helm writes the time.
			if again[name] != sum && filepath.Ext(name) != ".tgz" {
				t.Errorf("%s is another file each time", name)
			}
		}
		if _, err := os.Stat(mine); err != nil {
			t.Error("a file that is not of the release was removed")
		}
	})
}

func makeRelease(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./tools/release", "-dir", dir,
		"-node-platforms", "linux/amd64,linux/arm64", "-user-platforms", "linux/"+runtime.GOARCH)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// sums are the checksums of the release, by file.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, "SHA256SUMS")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		out[name] = sum
	}
	return out
}

// versionOf is the version that the notes begin with.
func versionOf(t *testing.T, dir string) string {
	t.Helper()
	notes := string(read(t, filepath.Join(dir, "release-notes.md")))
	title, _, _ := strings.Cut(notes, "\n")
	version, ok := strings.CutPrefix(title, "# v")
	if !ok || !strings.Contains(string(read(t, filepath.Join(root, "CHANGELOG.md"))), "\n## v"+version+"\n") {
		t.Fatalf("the notes begin with %q", title)
	}
	return "v" + version
}

func checkSums(t *testing.T, dir string, sums map[string]string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" {
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, filepath.Join(dir, e.Name())))); sums[e.Name()] != got {
			t.Errorf("%s has the sum %s, not %q", e.Name(), got, sums[e.Name()])
		}
	}
	if len(entries) != len(sums)+1 {
		t.Errorf("%d files, %d sums", len(entries), len(sums))
	}
}

func checkImage(t *testing.T, dir, version string) {
	folder := t.TempDir()
	archive := filepath.Join(dir, product+"_"+version+"_image.tar")
	if out, err := exec.Command("tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	named, err := top.IndexManifest()
	if err != nil || len(named.Manifests) != 1 {
		t.Fatalf("%+v, %v", named, err)
	}
	if got, want := named.Manifests[0].Annotations["io.containerd.image.name"], "docker.io/mumoshu/"+product+":"+version; got != want {
		t.Errorf("its name is %s, not %s", got, want)
	}
	index, err := top.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkPlatform(t, image, machines[m.Platform.String()])
		delete(machines, m.Platform.String())
	}
	if len(machines) > 0 {
		t.Errorf("no image for %v", machines)
	}
}

func checkPlatform(t *testing.T, image v1.Image, machine elf.Machine) {
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("it runs as %q", config.Config.User)
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
	files := untar(t, content)
	for _, name := range []string{"controller", "healthchecker", "proxy"} {
		program, err := elf.NewFile(bytes.NewReader(files[name]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if program.Machine != machine {
			t.Errorf("%s is for %s, not %s", name, program.Machine, machine)
		}
		if libraries, _ := program.ImportedLibraries(); len(libraries) > 0 {
			t.Errorf("%s needs %s", name, libraries)
		}
	}
}

func checkBOM(t *testing.T, file string) {
	bom := cyclonedx.NewBOM()
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(read(t, file)), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range *bom.Components {
		urls = append(urls, c.PackageURL)
	}
	for _, path := range []string{"sigs.k8s.io/controller-runtime", "k8s.io/api"} {
		cmd := exec.Command("go", "list", "-m", "-f", "{{.Path}}@{{.Version}}", path)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := "pkg:golang/" + strings.TrimSpace(string(out)); !slices.Contains(urls, want) {
			t.Errorf("%s does not list %s", filepath.Base(file), want)
		}
	}
	if want := "pkg:golang/std@" + runtime.Version(); !slices.Contains(urls, want) {
		t.Errorf("%s does not list %s", filepath.Base(file), want)
	}
}

func checkPlugin(t *testing.T, dir, version string) {
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(read(t, filepath.Join(dir, "ids.yaml")), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != version || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("%+v", manifest)
	}
	p := manifest.Spec.Platforms[0]
	if p.Selector.MatchLabels["os"] != "linux" || p.Selector.MatchLabels["arch"] != runtime.GOARCH || !strings.Contains(p.URI, "/"+version+"/") {
		t.Errorf("%+v", p)
	}
	archive := read(t, filepath.Join(dir, p.URI[strings.LastIndex(p.URI, "/")+1:]))
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); sum != p.SHA256 {
		t.Errorf("krew would refuse the archive with sum %s", sum)
	}
	content, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, content)
	if len(files["LICENSE"]) == 0 {
		t.Error("no license")
	}
	if !strings.Contains(string(files["kubectl_complete-ids"]), "kubectl ids __complete") {
		t.Errorf("nothing completes kubectl ids: %q", files["kubectl_complete-ids"])
	}
	program := filepath.Join(t.TempDir(), "kubectl-ids")
	if err := os.WriteFile(program, files[p.Bin], 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("%s, %v", out, err)
	}
}

func checkInstallation(t *testing.T, dir, version string) {
	image := "mumoshu/" + product + ":" + version
	chart := filepath.Join(dir, product+"-"+strings.TrimPrefix(version, "v")+".tgz")
	rendered, err := helm.Command(t.Context(), root, "template", "release", chart).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, manifests := range map[string][]byte{"chart": rendered, "install.yaml": read(t, filepath.Join(dir, "install.yaml"))} {
		if bytes.Count(manifests, []byte(image)) != 2 || bytes.Contains(manifests, []byte(product+":latest")) {
			t.Errorf("the %s does not name %s for controller and health checker", name, image)
		}
	}
}

// untar gives the files of an archive by name.
func untar(t *testing.T, content io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestWrongChangelog is refused with what to change.
func TestWrongChangelog(t *testing.T) {
	program := filepath.Join(t.TempDir(), "release")
	if out, err := exec.Command("go", "build", "-o", program, root+"/tools/release").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for content, want := range map[string]string{
		"# Changes\n":                    "begin one with a line such as ## v0.1.0",
		"## next\n\nA change.\n":         "must be a version such as v0.1.0",
		"## v1.0.0\n\n## v0.9.0\n\nOld.": "says nothing about v1.0.0",
	} {
		cmd := exec.Command(program)
		cmd.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(cmd.Dir, "CHANGELOG.md"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, %s", content, err, out)
		}
	}
	cmd := exec.Command(program, "-node-platforms", "linux")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `"linux" is no platform: name it as linux/amd64`) {
		t.Errorf("%v, %s", err, out)
	}
}
