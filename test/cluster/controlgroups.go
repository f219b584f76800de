package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// controlGroup is the name of the cluster's folder in each cgroup hierarchy,
// below which are the machines and then their containers. It is the cluster's
// own, because the hierarchies are the one thing that all clusters share.
func (c *Cluster) controlGroup() string {
	return fmt.Sprintf("ingress-daemonset-%x", sha256.Sum256([]byte(c.dir)))[:len("ingress-daemonset-")+8]
}

// hierarchies returns the mounted cgroup hierarchies: one with cgroup v2, one
// for each few controllers with v1, and both where v2 is only for tracking.
func hierarchies() ([]machine.ControlGroup, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(mounts)), nil
}

func parseHierarchies(mountinfo string) []machine.ControlGroup {
	var all []machine.ControlGroup
	for line := range strings.Lines(mountinfo) {
		mount, filesystem, found := strings.Cut(line, " - ")
		before, after := strings.Fields(mount), strings.Fields(filesystem)
		if !found || len(before) < 5 || len(after) < 3 || !strings.HasPrefix(after[0], "cgroup") {
			continue
		}
		all = append(all, machine.ControlGroup{Mount: before[4], Type: after[0], Options: controllers(after[0], after[2])})
	}
	return all
}

// controllers picks those mount options that say which hierarchy it is.
func controllers(filesystem, options string) string {
	if filesystem != "cgroup" {
		return ""
	}
	kept := slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
		return option == "rw" || option == "ro" || option == "xattr" || strings.HasPrefix(option, "release_agent=")
	})
	if len(kept) == 1 && strings.HasPrefix(kept[0], "name=") {
		return "none," + kept[0]
	}
	return strings.Join(kept, ",")
}

// controlGroupsOf are the control groups of a machine.
func (c *Cluster) controlGroupsOf(machineName string) ([]machine.ControlGroup, error) {
	groups, err := hierarchies()
	for i := range groups {
		groups[i].Folder = filepath.Join(groups[i].Mount, c.controlGroup(), machineName)
	}
	return groups, err
}

// makeControlGroups makes control groups, empty as after a reboot.
func makeControlGroups(ctx context.Context, groups []machine.ControlGroup) error {
	for _, group := range groups {
		if err := removeControlGroup(ctx, group.Folder); err != nil {
			return err
		}
		cluster := filepath.Dir(group.Folder)
		if err := errors.Join(makeControlGroup(cluster), handDown(group.Mount), handDown(cluster), makeControlGroup(group.Folder)); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
	}
	return nil
}

func makeControlGroup(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// With v1 a set of processors starts empty, and nothing can run in it.
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		set, err := os.ReadFile(filepath.Join(filepath.Dir(folder), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), set, 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// handDown lets the groups below a group use the controllers that it may use
// itself, which with v2 must be said.
func handDown(folder string) error {
	controllers, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(controllers)) {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeControlGroups removes the cluster's folder from every hierarchy. All
// processes in it must be dead.
func (c *Cluster) removeControlGroups(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := removeControlGroup(ctx, filepath.Join(root.Mount, c.controlGroup())); err != nil {
			return err
		}
	}
	return nil
}

// removeControlGroup removes a control group and those below it. The kernel
// may need a moment to notice that the last process of it is dead.
func removeControlGroup(ctx context.Context, group string) error {
	for {
		err := removeTree(group)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || sleep(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("remove control group: %w", err)
		}
	}
}

// removeTree removes the folders of a control group, the deepest first. Its
// files belong to the kernel and go with them.
func removeTree(group string) error {
	var folders []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
