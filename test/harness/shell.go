package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Shell runs command lines one after another, as somebody who follows a page enters them: what one exports, those
// after it have.
type Shell struct {
	// Dir is where they run. Programs in Bin are found first.
	Dir, Bin string
	// Out gets what they print as they print it, of exported values those that a command made; nil for nobody.
	Out      io.Writer
	harness  *Harness
	exported []string
}

// Shell is one in a folder, whose kubectl is for this cluster.
func (s *Harness) Shell(dir, bin string) *Shell { return &Shell{Dir: dir, Bin: bin, harness: s} }

// export is a line that sets a variable.
var export = regexp.MustCompile(`^export ([A-Z]+)=`)

// Enter runs a line and gives what it printed: of one that exports, the value. One that reaches nodes runs beside the
// load balancer.
func (s *Shell) Enter(ctx context.Context, beside bool, line string) (string, error) {
	exports := export.FindStringSubmatch(line)
	if exports != nil {
		line += ` && echo "$` + exports[1] + `"`
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	if beside {
		cmd = s.harness.Command(ctx, "bash", "-c", line)
	}
	cmd.Dir = s.Dir
	// make must not find that it is called by another make.
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+s.harness.Kubeconfig(), "PATH="+s.Bin+":"+os.Getenv("PATH"), "BIN="+s.Bin, "MAKEFLAGS=", "MAKELEVEL=0")
	cmd.Env = append(cmd.Env, s.exported...)
	cmd.WaitDelay = 10 * time.Second
	var printed bytes.Buffer
	cmd.Stdout = &printed
	if s.Out != nil && (exports == nil || strings.Contains(line, "$(")) {
		cmd.Stdout = io.MultiWriter(&printed, s.Out)
	}
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if exports != nil && err == nil {
		s.exported = append(s.exported, exports[1]+"="+strings.TrimSpace(printed.String()))
	}
	return printed.String(), err
}

// LinkKubectl builds the plugin, and makes it and kubectl available in a folder, which it returns.
func (s *Harness) LinkKubectl(ctx context.Context) (bin string, err error) {
	defer s.Step("building kubectl ids").Done()
	plugin, err := s.BuildTool(ctx, "./cmd/kubectl-ids")
	if err != nil {
		return "", err
	}
	bin = filepath.Dir(plugin)
	for name, program := range map[string]string{"kubectl": s.Kubectl(ctx).Path, "kubectl-ids": plugin, "kubectl_complete-ids": plugin} {
		link := filepath.Join(bin, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.Symlink(program, link); err != nil {
			return "", err
		}
	}
	return bin, nil
}
