// Command release makes everything of a release in dist/, without a network once
// the modules are there. programs.go builds for each platform, image.go packs the
// image, install.go the manifests and the chart, bom.go lists what is inside,
// krew.go describes the plugin, notes.go takes version and notes from CHANGELOG.md.
//
// The same commit and compiler make the same files, byte for byte, but for the chart,
// in which helm writes the time.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r release
	var nodes, users string
	flag.StringVar(&r.dir, "dir", "dist", "where to write; what a release there held before is removed")
	flag.StringVar(&nodes, "node-platforms", "linux/amd64,linux/arm64", "platforms of the image")
	flag.StringVar(&users, "user-platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64", "platforms of kubectl ids")
	flag.Parse()
	err := errors.Join(platforms(&r.nodes, nodes), platforms(&r.users, users))
	if flag.NArg() > 0 {
		err = fmt.Errorf("it takes no argument, but %s", flag.Args())
	}
	if err == nil {
		err = r.make(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// Where it is published: the image by this name, the files in a folder of the
// version's name.
const (
	homepage  = "https://github.com/mumoshu/ingress-daemonset-controller"
	downloads = homepage + "/releases/download"
	imageName = "mumoshu/ingress-daemonset-controller"
)

// release is what is made, and where.
type release struct {
	dir string
	// nodes are the platforms of the image, users those of the plugin.
	nodes, users []platform
	// version begins with v.
	version, notes string
	// scratch is removed in the end.
	scratch string
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// platforms reads a list such as linux/amd64,linux/arm64.
func platforms(to *[]platform, list string) error {
	for name := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system == "" || arch == "" {
			return fmt.Errorf("%q is no platform: name it as linux/amd64", name)
		}
		*to = append(*to, platform{system, arch})
	}
	return nil
}

func (r *release) make(ctx context.Context) (err error) {
	if r.version, r.notes, err = latest("CHANGELOG.md"); err != nil {
		return err
	}
	if r.scratch, err = os.MkdirTemp("", "release-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.scratch)
	if err := r.clean(); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"notes", r.writeNotes},
		{"image and what is in it", r.packImage},
		{"manifests", r.writeManifests},
		{"chart", r.packChart},
		{"kubectl ids", r.packPlugin},
		{"checksums", r.writeSums},
	} {
		fmt.Printf("%s: %s\n", r.version, step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	fmt.Printf("%s is in %s\n", r.version, r.dir)
	return nil
}

// clean removes what an earlier release left, by its list of checksums, and nothing else.
func (r *release) clean() error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	sums, err := os.ReadFile(r.path(sumsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(sums)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && filepath.Base(name) == name {
			err = errors.Join(err, os.RemoveAll(r.path(name)))
		}
	}
	return errors.Join(err, os.Remove(r.path(sumsFile)))
}

// reference is the image's.
func (r *release) reference() string { return imageName + ":" + r.version }

func (r *release) path(name string) string { return filepath.Join(r.dir, name) }

// named is the name of a file of the release: NAME_VERSION.
func (r *release) named(name, rest string) string { return name + "_" + r.version + rest }

const sumsFile = "SHA256SUMS"

// files are those of the release, by name.
func (r *release) files() []string {
	out := []string{
		notesFile, manifestsFile, krewFile, r.chartFile(), r.imageFile(),
		r.bomFile(product), r.bomFile(plugin),
	}
	for _, p := range r.users {
		out = append(out, r.archiveOf(p))
	}
	slices.Sort(out)
	return out
}

// writeSums lists the files as sha256sum --check reads them.
func (r *release) writeSums(context.Context) error {
	var list strings.Builder
	for _, name := range r.files() {
		sum, err := r.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, name)
	}
	return os.WriteFile(r.path(sumsFile), []byte(list.String()), 0o644)
}

func (r *release) sum(name string) (string, error) {
	content, err := os.ReadFile(r.path(name))
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
}
