package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	manifestsFile = "install.yaml"
	// unreleased is the image that the manifests name in the repository.
	unreleased = imageName + ":latest"
)

// writeManifests writes config/default with the image of this release.
func (r *release) writeManifests(context.Context) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "config/default")
	if err != nil {
		return err
	}
	content, err := built.AsYaml()
	if err != nil {
		return err
	}
	if !bytes.Contains(content, []byte(unreleased)) {
		return fmt.Errorf("config/default does not name the image %s", unreleased)
	}
	content = bytes.ReplaceAll(content, []byte(unreleased), []byte(r.reference()))
	return os.WriteFile(r.path(manifestsFile), content, 0o644)
}

// chartVersion has no v, as Helm wants it.
func (r *release) chartVersion() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) chartFile() string { return product + "-" + r.chartVersion() + ".tgz" }

// packChart packs the chart, whose default image is that of this release.
func (r *release) packChart(ctx context.Context) error {
	pack := helm.Command(ctx, ".", "package", "charts/"+product,
		"--version", r.chartVersion(), "--app-version", r.version, "--destination", r.dir)
	if out, err := pack.CombinedOutput(); err != nil {
		return fmt.Errorf("helm package: %w: %s", err, out)
	}
	return nil
}
