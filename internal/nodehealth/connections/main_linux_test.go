package connections

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
)

// inNamespace says that the test's program runs in a network namespace of its own.
const inNamespace = "TEST_CONNECTIONS_NAMESPACE"

// Addresses of the namespace, those of peers included: a connection between equal
// addresses does not count.
const (
	here4, peer4 = "127.0.0.1", "127.0.0.2"
	here6, peer6 = "fd00::1", "fd00::2"
)

var silent = slog.New(slog.DiscardHandler)

// TestMain runs the tests in a network namespace of their own where it may, so that
// nobody else's connections come between.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		goleak.VerifyTestMain(m)
		return
	}
	if os.Getenv(inNamespace) == "" {
		os.Exit(again())
	}
	// Those that a fuzz test starts are in the namespace of whoever started them.
	if slices.Contains(os.Args, "-test.fuzzworker") {
		goleak.VerifyTestMain(m)
		return
	}
	if err := prepareNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// again runs the test's program with the same arguments in a new namespace.
func again() int {
	runtime.LockOSThread() // the program is killed when the thread ends
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited):
		return max(1, exited.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func prepareNamespace() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, ip := range []string{here6, peer6} {
		address, err := netlink.ParseAddr(ip + "/128")
		if err != nil {
			return err
		}
		address.Flags = syscall.IFA_F_NODAD
		if err := netlink.AddrAdd(loopback, address); err != nil {
			return fmt.Errorf("adding %s: %w", ip, err)
		}
	}
	return netlink.LinkSetUp(loopback)
}
