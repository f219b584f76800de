// Package helm starts the real helm, which is built from a module of its own.
package helm

import (
	"context"
	"os/exec"
	"path/filepath"
)

// Command is helm with arguments, built by the module in tools/helm of the project whose folder root is.
func Command(ctx context.Context, root string, arguments ...string) *exec.Cmd {
	module := filepath.Join(root, "tools", "helm", "go.mod")
	return exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=" + module, "helm"}, arguments...)...)
}
