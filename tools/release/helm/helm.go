// Package helm starts the real helm, which is built from a module of its own.
package helm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Command is helm with arguments, built by the module in tools/helm of the project whose folder root is.
func Command(ctx context.Context, root string, arguments ...string) *exec.Cmd {
	return command(ctx, root, "helm", arguments)
}

// Build builds helm where that was not done before, which takes minutes, in the project whose folder root is.
func Build(ctx context.Context, root string) error { return build(Command(ctx, root, "version")) }

// Build3 is Build of Helm 3.
func Build3(ctx context.Context, root string) error {
	return build(command(ctx, root, "helm3", []string{"version"}))
}

func build(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building helm: %w: %s", err, out)
	}
	return nil
}

// command is a helm that the module in a folder of tools/ builds.
func command(ctx context.Context, root, module string, arguments []string) *exec.Cmd {
	file := filepath.Join(root, "tools", module, "go.mod")
	// The module pins versions of its own, outside of the workspace.
	return exec.CommandContext(ctx, "env", append([]string{"GOWORK=off", "go", "tool", "-modfile=" + file, "helm"}, arguments...)...)
}

// Run runs helm with nothing of the user's own, but with its files in home, and gives what it printed.
// Variables, each as NAME=value, are added to the environment. The error has what helm complained of.
func Run(ctx context.Context, root, home string, variables []string, arguments ...string) (string, error) {
	return run(Command(ctx, root, arguments...), home, variables)
}

// Run3 is Run with Helm 3.
func Run3(ctx context.Context, root, home string, variables []string, arguments ...string) (string, error) {
	return run(command(ctx, root, "helm3", arguments), home, variables)
}

func run(cmd *exec.Cmd, home string, variables []string) (string, error) {
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Env = append(cmd.Env, variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, &stderr, &stdout)
	}
	return stdout.String(), nil
}
