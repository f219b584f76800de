package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// Down takes the cluster down: every process, and with them every namespace,
// mount and interface, every control group, and all files but the logs.
func (c *Cluster) Down(ctx context.Context) error {
	unlock, err := lock(ctx, c.path("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return c.takeDown(ctx)
}

// Down takes down the cluster in dir, by default ".cluster", whatever state it
// is in and whoever started it. Where there is none it does nothing.
func Down(ctx context.Context, dir string) error {
	// The folder may be gone and the processes not.
	made, err := makeDir(dir)
	if err != nil {
		return err
	}
	return (&Cluster{dir: made}).Down(ctx)
}

func (c *Cluster) takeDown(ctx context.Context) error {
	machines, err := filepath.Glob(c.path("machines", "*"))
	if err != nil {
		return err
	}
	for _, dir := range machines {
		if err := machine.Open(dir).PowerOff(ctx); err != nil {
			return err
		}
	}
	if err := c.killStrays(ctx); err != nil {
		return err
	}
	if err := c.removeControlGroups(ctx); err != nil {
		return err
	}
	for _, name := range []string{"machines", "pki", "bin", "kubeconfig", "cluster.json"} {
		if err := os.RemoveAll(c.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// killStrays kills what carries the cluster's mark and did not die with its
// machine: what Command has started, and machines whose files are lost.
func (c *Cluster) killStrays(ctx context.Context) error {
	for {
		pids, err := machine.Processes(c.dir)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d of the cluster: %w", pid, err)
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("processes of the cluster do not end: %v: %w", pids, err)
		}
	}
}
