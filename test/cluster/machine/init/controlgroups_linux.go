package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// enterControlGroups moves this process into the machine's control groups and
// makes them all that is seen of the hierarchies. Container runtimes need the
// two views, of files and of /proc/self/cgroup, to agree.
func enterControlGroups(groups []machine.ControlGroup) error {
	for _, group := range groups {
		if err := join(group.Folder); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	// The roots of a new namespace are the groups that this process is in.
	if err := syscall.Unshare(syscall.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("new control group namespace: %w", err)
	}
	for _, group := range groups {
		if err := syscall.Unmount(group.Mount, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", group.Mount, err)
		}
		if err := syscall.Mount("cgroup", group.Mount, group.Type, 0, group.Options); err != nil {
			return fmt.Errorf("mount control groups on %s: %w", group.Mount, err)
		}
		if err := makeRoom(group.Mount); err != nil {
			return fmt.Errorf("hand down controllers: %w", err)
		}
	}
	return nil
}

func join(folder string) error {
	return os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0o644)
}

// makeRoom moves this process out of a root of cgroup v2: a group that hands
// controllers down must not have processes of its own.
func makeRoom(root string) error {
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	services := filepath.Join(root, "services")
	if err := os.Mkdir(services, 0o755); err != nil {
		return err
	}
	if err := join(services); err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return err
		}
	}
	return nil
}
