// Package conformance runs the Gateway API's own tests on a real cluster, where the proxy that comes with the controller
// serves their Gateways.
package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are built by the module that pins the suite, in the project whose folder root is.
type Programs struct{ root, dir string }

// Build builds the programs into a folder, which takes minutes when nothing is cached.
func Build(ctx context.Context, root, dir string) (*Programs, error) {
	p := &Programs{root, dir}
	if _, err := p.inModule(ctx, "test", "-c", "-trimpath", "-o", p.suite(), "."); err != nil {
		return nil, err
	}
	_, err := p.inModule(ctx, "build", "-trimpath", "-o", p.backend(), "sigs.k8s.io/gateway-api/conformance/echo-basic")
	return p, err
}

// suite runs the suite's tests, as its flags say.
func (p *Programs) suite() string { return filepath.Join(p.dir, "suite") }

// options is a file that has what its flags need not say.
func (p *Programs) options() string { return filepath.Join(p.module(), "options.yaml") }

// backend answers with what it was asked.
func (p *Programs) backend() string { return filepath.Join(p.dir, "echo-basic") }

func (p *Programs) module() string { return filepath.Join(p.root, "tools", "conformance") }

// crds is the folder of the API's CRDs, those of its standard channel.
func (p *Programs) crds(ctx context.Context) (string, error) {
	api, err := p.inModule(ctx, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	return filepath.Join(api, "config", "crd", "standard"), err
}

// inModule runs the go command in the module, whose versions are its own.
func (p *Programs) inModule(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = p.module(), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
