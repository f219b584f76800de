package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestTracesAreTheClustersOwn makes mounts and interfaces, in namespaces of its own:
// those of others are no trace of a cluster, those that a cluster makes are.
func TestTracesAreTheClustersOwn(t *testing.T) {
	// The thread is not given back, so that the namespaces end with it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	before := traces(t, dir)
	mount(t, dir+"-of-another")
	link(t, "br-of-another")
	if now := traces(t, dir); !reflect.DeepEqual(now, before) {
		t.Errorf("what others make is taken for the cluster's: %+v, before %+v", now, before)
	}
	mount(t, filepath.Join(dir, "node-1"))
	link(t, bridgeName)
	now := traces(t, dir)
	if len(now.mounts) != len(before.mounts)+1 || len(now.interfaces) != len(before.interfaces)+1 {
		t.Errorf("what a cluster makes is not found: %+v, before %+v", now, before)
	}
}

func mount(t *testing.T, on string) {
	t.Helper()
	if err := os.MkdirAll(on, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", on, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(on, 0); err != nil {
			t.Error(err)
		}
	})
}

func link(t *testing.T, name string) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		t.Fatal(err)
	}
}
