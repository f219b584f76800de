package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Product is the image of this product's commands, as config/default names it.
const Product = "docker.io/mumoshu/ingress-daemonset-controller:latest"

// Named is a reference as nodes write it out: one that names no registry is of docker.io.
func Named(reference string) (string, error) {
	parsed, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%w: an image is named such as registry.example.com/ingress-daemonset-controller:v1, in small letters", err)
	}
	return strings.Replace(parsed.Name(), name.DefaultRegistry, "docker.io", 1), nil
}

// Build builds the commands of the project in root that run in a cluster, for this machine's
// architecture, and packs them into an image archive in dir, in which the image has that name. With the variable RACE they
// have the race detector in them, of which the first race ends the program: they are slower then,
// and take much more memory.
func Build(ctx context.Context, root, dir, reference string) (archive string, err error) {
	bin := filepath.Join(dir, "commands")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	args, cgo, env := []string{"build", "-trimpath", "-ldflags=-s -w"}, "0", []string(nil)
	if os.Getenv("RACE") != "" {
		// The image has no C library.
		args, cgo = []string{"build", "-race", "-tags=netgo,osusergo", "-ldflags=-linkmode=external -extldflags=-static"}, "1"
		env = []string{"GORACE=halt_on_error=1"}
	}
	args = append(args, "-o", bin+"/", "./cmd/controller", "./cmd/healthchecker")
	// Releases before had none.
	if _, err := os.Stat(filepath.Join(root, "cmd", "proxy")); err == nil {
		args = append(args, "./cmd/proxy")
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir, build.Env = root, append(os.Environ(), "GOWORK=off", "GOOS=linux", "CGO_ENABLED="+cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the commands: %w: %s", err, out)
	}
	image, err := Commands(bin, runtime.GOARCH, env...)
	if err != nil {
		return "", err
	}
	archive = filepath.Join(dir, "ingress-daemonset-controller.tar")
	return archive, Write(archive, reference, image)
}
