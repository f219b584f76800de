package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/stage"
)

// TestHelm installs the controller with Helm instead, upgrades it while an
// IngressDaemonSet serves, and uninstalls it.
func TestHelm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	const root = "../.."
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := theStage.Kubectl(ctx, args...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	helm := func(args ...string) string {
		t.Helper()
		args = append([]string{"tool", "-modfile=" + filepath.Join(root, "tools/helm/go.mod"), "helm"}, args...)
		cmd := exec.CommandContext(ctx, "go", append(args, "--namespace", stage.Namespace, "--kubeconfig", theStage.Kubeconfig())...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args[2:], " "), err, out)
		}
		return string(out)
	}
	// A controller that ends while its account goes is refused what it asks, and the
	// audit log is searched for that.
	end := func() {
		t.Helper()
		kubectl("-n", stage.Namespace, "scale", "deployment", "ingress-daemonset-controller", "--replicas=0")
		kubectl("-n", stage.Namespace, "wait", "pod", "-l", "app.kubernetes.io/name=ingress-daemonset-controller", "--for=delete", "--timeout=2m")
	}
	end()
	// The CRD stays, as it does between releases.
	for _, part := range []string{"policy", "rbac", "controller"} {
		kubectl("delete", "-k", filepath.Join(root, "config", part), "--wait")
	}
	t.Cleanup(func() {
		if err := theStage.Deploy(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})

	chart := filepath.Join(root, "charts/ingress-daemonset-controller")
	set := []string{"--set", "image.pullPolicy=Always", "--wait", "--timeout", "3m"}
	notes := helm(append([]string{"install", "ids", chart, "--create-namespace"}, set...)...)
	if !strings.Contains(notes, "Before an uninstall, delete the IngressDaemonSets") {
		t.Errorf("helm install says\n%s", notes)
	}
	s := scenario{example: "nginx.yaml"}
	fleet := s.apply(ctx, t)
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	helm(append([]string{"upgrade", "ids", chart, "--set", "verbosity=1"}, set...)...)
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	after, err := fleet.Pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for uid := range after {
		if before[uid] == nil {
			t.Error("the upgrade replaced pods")
		}
	}
	if err := theStage.RemoveNamespace(ctx, fleet.Key.Namespace); err != nil {
		t.Fatal(err)
	}
	end()
	helm("uninstall", "ids", "--wait")
	if out, err := theStage.Kubectl(ctx, "get", "ids", "--all-namespaces").CombinedOutput(); err != nil {
		t.Errorf("the CRD went with the release: %v: %s", err, out)
	}
	if out, _ := theStage.Kubectl(ctx, "-n", stage.Namespace, "get", "all", "-o", "name").Output(); strings.Contains(string(out), "deployment") {
		t.Errorf("left: %s", out)
	}
}
