// Command push pushes the image that `make image` made, or the chart, to a registry. It takes the
// credentials that docker login, podman login or helm registry login left. A registry on this machine
// or in a private network is asked without TLS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
)

func main() {
	archive := flag.String("archive", "dist/ingress-daemonset-controller.tar", "the image")
	image := flag.String("image", "", "where to push it, such as registry.example.com/ingress-daemonset-controller:v1")
	chart := flag.String("chart", "", "where to push the chart, such as oci://registry.example.com/charts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := push(ctx, *archive, *image, *chart); err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

func push(ctx context.Context, archive, image, chart string) error {
	if image == "" && chart == "" {
		return errors.New("say where to: make push IMAGE=registry.example.com/ingress-daemonset-controller:v1, or CHART=oci://registry.example.com/charts")
	}
	if image != "" {
		if err := pushImage(ctx, archive, image); err != nil {
			return err
		}
	}
	if chart != "" {
		return pushChart(ctx, ".", chart)
	}
	return nil
}

func pushImage(ctx context.Context, archive, reference string) error {
	to, err := name.ParseReference(reference)
	if err != nil {
		return fmt.Errorf("IMAGE: %w", err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return fmt.Errorf("reading %s, which make image writes: %w", archive, err)
	}
	if err := remote.Write(to, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", to, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", to, digest)
	return nil
}

// pushChart packs the chart of the project in root and pushes it, with helm.
func pushChart(ctx context.Context, root, repository string) error {
	host, found := strings.CutPrefix(repository, "oci://")
	host, _, _ = strings.Cut(host, "/")
	registry, err := name.NewRegistry(host)
	if !found || host == "" || err != nil {
		return fmt.Errorf("CHART=%s: must be a registry and a path, such as oci://registry.example.com/charts", repository)
	}
	dir, err := os.MkdirTemp("", "push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := show(helm.Command(ctx, root, "package", filepath.Join(root, "charts", "ingress-daemonset-controller"), "--destination", dir)); err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return fmt.Errorf("helm packed %v: %w", packed, err)
	}
	arguments := []string{"push", packed[0], repository}
	if registry.Scheme() == "http" {
		arguments = append(arguments, "--plain-http")
	}
	return show(helm.Command(ctx, root, arguments...))
}

// show runs a command on this terminal.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("helm: %w", err)
	}
	return nil
}
