// Command deploy installs the controller, from config/default, into the cluster that $KUBECONFIG
// names. $IMAGE is the image of the controller and of the health checkers; without it that is
// that of config/default, which nobody publishes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// What is deployed, as config/default names it.
const (
	namespace  = "ingress-daemonset-system"
	controller = "ingress-daemonset-controller"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := deploy(ctx, os.Getenv("KUBECONFIG"), os.Getenv("IMAGE")); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

// deploy installs with kubectl, which finds the cluster itself.
func deploy(ctx context.Context, kubeconfig, image string) error {
	// kubectl would look for a cluster on this machine.
	if !slices.ContainsFunc(filepath.SplitList(kubeconfig), exists) {
		return fmt.Errorf("KUBECONFIG names no file that exists: %s", kubeconfig)
	}
	kubectl, err := findKubectl()
	if err != nil {
		return err
	}
	configuration := filepath.Join("config", "default")
	if image != "" {
		configuration, err = withImage(configuration, image)
		if err != nil {
			return err
		}
		defer os.RemoveAll(configuration)
	}
	for _, arguments := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", configuration},
		{"-n", namespace, "rollout", "status", "deployment", controller, "--timeout=180s"},
	} {
		cmd := exec.CommandContext(ctx, kubectl, arguments...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %v: %w", arguments, err)
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// findKubectl prefers the user's own kubectl to the one built for local clusters.
func findKubectl() (string, error) {
	if own, err := exec.LookPath("kubectl"); err == nil {
		return own, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	built, err := filepath.Glob(filepath.Join(cache, "ingress-daemonset-controller", "kubernetes-*", "bin", "kubectl"))
	if err != nil || len(built) == 0 {
		return "", errors.New("kubectl is not on PATH: install it, or build one with `make cluster`")
	}
	return built[len(built)-1], nil
}

// overlay is a kustomization of another one in which the controller and its health checkers run
// from an image.
const overlay = `resources: [%q]
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: %[2]s, namespace: %[3]s}
    spec:
      template:
        spec:
          containers:
          - name: controller
            image: %[4]q
            env: [{name: HEALTHCHECKER_IMAGE, value: %[4]q}]
`

// withImage writes an overlay of a configuration into a folder of its own.
func withImage(configuration, image string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "deploy-")
	if err != nil {
		return "", err
	}
	// kustomize takes no absolute path.
	base, err := filepath.Abs(configuration)
	if err == nil {
		base, err = filepath.Rel(dir, base)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, overlay, base, controller, namespace, image), 0o644)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}
