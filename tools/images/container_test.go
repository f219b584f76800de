//go:build linux

package images

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ownNetwork gives the test a network namespace with nothing but loopback. It lasts as
// long as the test's goroutine and the processes started from it.
func ownNetwork(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to change root and network")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		t.Fatal(err)
	}
}

// unpacked is an image on disk, read back from its archive.
type unpacked struct {
	root   string
	config v1.Config
}

func unpack(t *testing.T, archive string) unpacked {
	t.Helper()
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%v, %d layers", err, len(layers))
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	root := t.TempDir()
	tar := exec.Command("tar", "--extract", "--preserve-permissions", "--xattrs", "--xattrs-include=*", "--directory", root)
	tar.Stdin = layer
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	null := filepath.Join(root, "dev/null")
	if err := unix.Mknod(null, unix.S_IFCHR, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(null, 0o666); err != nil {
		t.Fatal(err)
	}
	return unpacked{root, config.Config}
}

// container is a process in an unpacked image, the first of its process namespace.
type container struct {
	*exec.Cmd
	image  unpacked
	output bytes.Buffer
	exited chan struct{}
}

// run starts the image as a kubelet would: args replace the image's command, not its entrypoint.
func (u unpacked) run(t *testing.T, uid uint32, env []string, args ...string) *container {
	t.Helper()
	if len(args) == 0 {
		args = u.config.Cmd
	}
	args = slices.Concat(u.config.Entrypoint, args)
	c := &container{image: u, exited: make(chan struct{})}
	c.Cmd = &exec.Cmd{
		Path: u.lookPath(t, args[0]), Args: args, Dir: "/", Env: slices.Concat(u.config.Env, env),
		Stdout: &c.output, Stderr: &c.output,
		SysProcAttr: &syscall.SysProcAttr{
			Chroot: u.root, Credential: &syscall.Credential{Uid: uid, Gid: uid}, Cloneflags: syscall.CLONE_NEWPID,
		},
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.Wait(); close(c.exited) }()
	t.Cleanup(func() {
		c.Process.Kill()
		<-c.exited
		if t.Failed() {
			t.Logf("%v:\n%s", args, c.output.String())
		}
	})
	return c
}

func (u unpacked) lookPath(t *testing.T, program string) string {
	t.Helper()
	if strings.HasPrefix(program, "/") {
		return program
	}
	_, folders, _ := strings.Cut(u.config.Env[0], "PATH=")
	for _, folder := range strings.Split(folders, ":") {
		if _, err := os.Stat(filepath.Join(u.root, folder, program)); err == nil {
			return filepath.Join(folder, program)
		}
	}
	t.Fatalf("the image has no %s", program)
	return ""
}

// awaitExit fails the test unless the process ends by itself with status 0.
func (c *container) awaitExit(t *testing.T) {
	t.Helper()
	select {
	case <-c.exited:
		if !c.ProcessState.Success() {
			t.Errorf("the proxy ended with %v", c.ProcessState)
		}
	case <-time.After(10 * time.Second):
		t.Error("the proxy does not end")
	}
}

func (c *container) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// dial retries until the server listens. It stays on the thread that is in the test's
// network.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	var refused error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		conn, refused = net.Dial("tcp", address)
		return refused == nil, nil
	})
	if err != nil {
		t.Fatal(refused)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// archiveOf builds a proxy's image twice and returns the archive of the first.
func archiveOf(t *testing.T, proxy string) string {
	t.Helper()
	var archives [2]string
	var contents [2][]byte
	for i := range archives {
		image, err := Proxy(t.Context(), proxy)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = filepath.Join(t.TempDir(), fmt.Sprintf("%d.tar", i))
		if err := Write(archives[i], "example/"+proxy+":test", image); err != nil {
			t.Fatal(err)
		}
		if contents[i], err = os.ReadFile(archives[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(contents[0], contents[1]) {
		t.Errorf("two images of %s differ", proxy)
	}
	return archives[0]
}
