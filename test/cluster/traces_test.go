package cluster

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// trace is what a cluster could leave on the machine it ran on. What others make there
// meanwhile is not in it.
type trace struct {
	interfaces, mounts, controlGroups, namespaces []string
	processes                                     []int
}

func traces(t *testing.T, dir string) (found trace) {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if isClusterInterface(i.Name) {
			found.interfaces = append(found.interfaces, i.Name)
		}
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if isClusterMount(line, dir) {
			found.mounts = append(found.mounts, line)
		}
	}
	for _, root := range parseHierarchies(string(mounts)) {
		group := filepath.Join(root.Mount, (&Cluster{dir: dir}).controlGroup())
		if _, err := os.Stat(group); err == nil {
			found.controlGroups = append(found.controlGroups, group)
		}
	}
	if found.processes, err = machine.Processes(dir); err != nil {
		t.Fatal(err)
	}
	found.namespaces = namespacesOf(t, found.processes)
	return found
}

// isClusterInterface knows the names that connectHost and connect give.
func isClusterInterface(name string) bool {
	return name == bridgeName || name == "eth0" || strings.HasPrefix(name, "node-")
}

// isClusterMount knows what a cluster keeps in its directory, and where its nodes have
// something else than the machine.
func isClusterMount(mountinfo, dir string) bool {
	fields := strings.Fields(mountinfo)
	root, target := fields[3], fields[4]
	return within(root, dir) || target == "/run" || slices.ContainsFunc([]string{dir, "/run/machine", "/var/log", "/proc/sys"}, func(top string) bool {
		return within(target, top)
	})
}

func within(path, top string) bool { return path == top || strings.HasPrefix(path, top+"/") }
