package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
)

const (
	helmRelease = "ingress-daemonset-controller"
	// chartBefore is the chart of the release before: test/chart says how it was made.
	chartBefore = root + "/test/chart/testdata/v0.1.0.tgz"
)

// TestChartOfTheReleaseBefore does what TestReleaseBefore does by the commands of the guide for Helm: it
// upgrades the chart of the release before, so that the CRDs move into the release, and rolls that back.
func TestChartOfTheReleaseBefore(t *testing.T) {
	old, present := buildBefore(t), pushPresent(t)
	home := t.TempDir()
	run := func(ctx context.Context, arguments ...string) error {
		_, err := helm.Run(ctx, root, home, []string{"KUBECONFIG=" + theHarness.Kubeconfig()}, arguments...)
		return err
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := errors.Join(scaleDown(ctx), run(ctx, "uninstall", helmRelease, "--namespace", harness.Namespace, "--ignore-not-found"), theHarness.Deploy(ctx))
		if err != nil {
			t.Error(err)
		}
	})
	if err := removeInstallation(t.Context()); err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(old.image, ":")
	err := run(t.Context(), "install", helmRelease, chartBefore, "--namespace", harness.Namespace, "--create-namespace",
		"--set", "image.repository="+repository+",image.tag="+tag)
	if err := errors.Join(err, old.installed(t.Context())); err != nil {
		t.Fatal(err)
	}
	upgrade, err := docs.HelmArguments(root, "upgrade", true)
	if err != nil {
		t.Fatal(err)
	}
	rollback, err := docs.HelmArguments(root, "rollback", false)
	if err != nil {
		t.Fatal(err)
	}
	_, tag, _ = strings.Cut(present.image, ":")
	upgrade = append(upgrade, "--set", "image.tag="+tag)
	thereAndBack(old, present,
		func(ctx context.Context) error { return errors.Join(run(ctx, rollback...), old.installed(ctx)) },
		func(ctx context.Context) error { return errors.Join(run(ctx, upgrade...), present.installed(ctx)) },
	).run(t)
}

// removeInstallation takes away what kubectl has installed of the controller.
func removeInstallation(ctx context.Context) error {
	if err := scaleDown(ctx); err != nil {
		return err
	}
	for _, part := range []string{"policy", "rbac", "controller", "crd"} {
		if out, err := theHarness.Kubectl(ctx, "delete", "--wait", "-k", root+"/config/"+part).CombinedOutput(); err != nil {
			return fmt.Errorf("deleting config/%s: %w: %s", part, err, out)
		}
	}
	return nil
}

// scaleDown ends the controller before its account goes: what it is refused would be found in the audit log.
func scaleDown(ctx context.Context) error {
	for _, arguments := range [][]string{
		{"scale", "deployment", helmRelease, "--replicas=0"},
		{"wait", "pod", "-l", "app.kubernetes.io/name=" + helmRelease, "--for=delete", "--timeout=2m"},
	} {
		if out, err := theHarness.Kubectl(ctx, append([]string{"-n", harness.Namespace}, arguments...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ending the controller: %w: %s", err, out)
		}
	}
	return nil
}
