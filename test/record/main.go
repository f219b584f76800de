// Command record plays docs/session/session.sh in a terminal, on a local cluster of
// its own, and draws it: docs/session/session.svg, which the README shows. It needs
// root, and Debian's asciinema and termtosvg.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"k8s.io/apimachinery/pkg/types"
)

const (
	script  = "docs/session/session.sh"
	drawing = "docs/session/session.svg"
	example = "examples/nginx.yaml"
)

// player types what it plays, as a user would.
//
//go:embed player.sh
var player string

func main() {
	harness.Quiet()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root")
	}
	dir, err := os.MkdirTemp("", "ids-record-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	home := filepath.Join(dir, "cluster")
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, cluster.Down(ctx, home))
	}()
	s, err := harness.SetUp(ctx, cluster.Options{Nodes: 3, Dir: home, Packages: []string{"asciinema", "termtosvg"}, Log: os.Stdout})
	if err != nil {
		return err
	}
	if err := prepare(ctx, s, dir); err != nil {
		return err
	}
	return record(ctx, s, dir)
}

// prepare puts into the folder what the session names, and starts the proxies.
func prepare(ctx context.Context, s *harness.Harness, dir string) error {
	plugin, err := s.BuildTool(ctx, "./cmd/kubectl-ids")
	if err != nil {
		return err
	}
	kubectl := s.Kubectl(ctx).Path
	for name, target := range map[string]string{"kubectl": kubectl, "kubectl-ids": plugin} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name, source := range map[string]string{"nginx.yaml": example, "session.sh": script} {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	if out, err := s.Kubectl(ctx, "apply", "-f", example).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	fleet := &harness.Fleet{Harness: s, Key: types.NamespacedName{Namespace: "default", Name: "nginx"}}
	return fleet.WaitServing(ctx)
}

// record plays the session and draws it. Where nothing happens for long, the drawing
// waits for two seconds.
func record(ctx context.Context, s *harness.Harness, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "player.sh"), []byte(player), 0o644); err != nil {
		return err
	}
	failed := filepath.Join(dir, "failed")
	for _, args := range [][]string{
		{"asciinema", "rec", "--quiet", "--overwrite", "--cols=110", "--rows=30", "--idle-time-limit=2",
			"--command=bash player.sh session.sh " + failed, "session.cast"},
		{"termtosvg", "render", "session.cast", "session.svg", "--template=window_frame", "--min-frame-duration=200", "--max-frame-duration=4000", "--loop-delay=6000"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "PATH="+dir+":"+os.Getenv("PATH"),
			"HOME="+dir, "TERM=xterm-256color", "LC_ALL=C.UTF-8", "SHELL=/bin/bash")
		cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
	}
	if what, err := os.ReadFile(failed); err == nil {
		return fmt.Errorf("the session failed at %s", what)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "session.svg"))
	if err != nil {
		return err
	}
	return os.WriteFile(drawing, svg, 0o644)
}
