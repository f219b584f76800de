package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deploy installs the controller into the local cluster, image included, or into
// the cluster that kubeconfig names.
func deploy(ctx context.Context, kubeconfig, image string) error {
	if !isLocal(kubeconfig) {
		return deployTo(ctx, kubeconfig, image)
	}
	s, err := harness.Open(localDir, os.Stdout)
	switch {
	case err != nil && kubeconfig == "":
		return fmt.Errorf("%w: start one with `make cluster`, or let KUBECONFIG name another", err)
	case err != nil:
		return err
	case image != "":
		return errors.New("IMAGE is for other clusters: the local one gets the image that is built here")
	}
	if err := s.Deploy(ctx); err != nil {
		return err
	}
	fmt.Println("the controller runs in namespace", harness.Namespace)
	return nil
}

// isLocal reports whether a value of KUBECONFIG means the local cluster.
func isLocal(kubeconfig string) bool {
	if kubeconfig == "" {
		return true
	}
	// The folder outlives the cluster, the file does not.
	named, err := os.Stat(filepath.Dir(kubeconfig))
	local, localErr := os.Stat(localDir)
	return err == nil && localErr == nil && os.SameFile(named, local) && filepath.Base(kubeconfig) == "kubeconfig"
}

// deployTo installs the controller with kubectl, which finds the cluster itself.
func deployTo(ctx context.Context, kubeconfig, image string) error {
	// kubectl would look for a cluster on this machine.
	if !slices.ContainsFunc(filepath.SplitList(kubeconfig), exists) {
		return fmt.Errorf("KUBECONFIG names no file that exists: %s", kubeconfig)
	}
	kubectl, err := findKubectl()
	if err != nil {
		return err
	}
	manifest, err := build(ctx, kubectl)
	if err != nil {
		return err
	}
	if err := useImage(manifest, image); err != nil {
		return err
	}
	var list bytes.Buffer
	for _, obj := range manifest {
		if err := json.NewEncoder(&list).Encode(obj); err != nil {
			return err
		}
	}
	apply := exec.CommandContext(ctx, kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-")
	apply.Stdin = &list
	if err := show(apply); err != nil {
		return err
	}
	return show(exec.CommandContext(ctx, kubectl, "-n", harness.Namespace, "rollout", "status", "deployment", controller, "--timeout=180s"))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// controller is the name of the controller's Deployment.
const controller = "ingress-daemonset-controller"

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

func build(ctx context.Context, kubectl string) (harness.Manifest, error) {
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", "config/default")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize: %w", err)
	}
	return harness.ParseManifest(out)
}

// useImage lets the controller and its health checkers run from an image; none is
// the published one.
func useImage(manifest harness.Manifest, image string) error {
	if image == "" {
		return nil
	}
	for _, obj := range manifest {
		if obj.GetKind() != "Deployment" || obj.GetName() != controller {
			continue
		}
		return inContainers(obj, func(c map[string]any) {
			c["image"] = image
			variables, _, _ := unstructured.NestedSlice(c, "env")
			for _, v := range variables {
				if variable := v.(map[string]any); variable["name"] == "HEALTHCHECKER_IMAGE" {
					variable["value"] = image
				}
			}
			c["env"] = variables
		})
	}
	return fmt.Errorf("config/default has no Deployment %s", controller)
}

func inContainers(deployment *unstructured.Unstructured, change func(map[string]any)) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil {
		return err
	}
	for _, c := range containers {
		change(c.(map[string]any))
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// show runs a command on this terminal.
func show(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", cmd.Args[1], err)
	}
	return nil
}
