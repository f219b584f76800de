package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/progress"
)

// debianPackages are the packages that bring what nodes need from the machine:
// the files to look for, and the package each comes with. The proxies are what
// examples and tests put on the nodes and in front of them.
var debianPackages = []struct{ file, name string }{
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"nginx", "nginx"},
	{"haproxy", "haproxy"},
	{"caddy", "caddy"},
}

// meetRequirements makes sure that nodes can run on this machine, and installs
// the packages that are missing.
func meetRequirements(ctx context.Context, nodes int, packages []string, log *progress.Log) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("nodes need Linux, this is %s: only a control plane and simulated nodes can run here", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("nodes need root: only a control plane and simulated nodes can run without")
	}
	if err := checkWatches(nodes); err != nil {
		return err
	}
	return installPackages(ctx, packages, log)
}

// checkWatches looks at the one kernel limit that many nodes run into, which
// would show as a kubelet that does not start.
func checkWatches(nodes int) error {
	const limit, ofControlPlane, ofNode = "/proc/sys/fs/inotify/max_user_instances", 15, 10
	text, err := os.ReadFile(limit)
	if err != nil {
		return err
	}
	available, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", limit, err)
	}
	if needed := ofControlPlane + nodes*ofNode; needed > available {
		return fmt.Errorf("%d nodes need %d inotify instances, and there may be %d: sysctl fs.inotify.max_user_instances=%d", nodes, needed, available, 2*needed)
	}
	return nil
}

func installPackages(ctx context.Context, more []string, log *progress.Log) error {
	missing := missingPackages(more)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing, and there is no apt-get to install them: %s", strings.Join(missing, " "))
	}
	defer log.Step("installing Debian packages: %s", strings.Join(missing, " ")).Done()
	restore, err := forbidServices()
	if err != nil {
		return err
	}
	defer restore()
	if _, err := output(ctx, "", "apt-get", "update"); err != nil {
		return err
	}
	install := append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends"}, missing...)
	if _, err := output(ctx, "", "env", install...); err != nil {
		return err
	}
	if missing := missingPackages(more); len(missing) > 0 {
		return fmt.Errorf("installed, but their programs are not there: %s", strings.Join(missing, " "))
	}
	return disableServices(ctx, missing)
}

// disableServices keeps installed proxies from being started at the next boot.
func disableServices(ctx context.Context, installed []string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil
	}
	for _, service := range []string{"nginx", "haproxy", "caddy", "prometheus", "prometheus-alertmanager"} {
		if slices.Contains(installed, service) {
			if _, err := output(ctx, "", "systemctl", "disable", service); err != nil {
				return err
			}
		}
	}
	return nil
}

func missingPackages(more []string) []string {
	var missing []string
	for _, name := range more {
		if !installed(name) {
			missing = append(missing, name)
		}
	}
	for _, p := range debianPackages {
		if !installed(p.file) {
			missing = append(missing, p.name)
		}
	}
	return missing
}

func installed(file string) bool {
	if filepath.IsAbs(file) {
		_, err := os.Stat(file)
		return err == nil
	}
	// Root's PATH may lack the folders of administration programs.
	folders := append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin")
	return slices.ContainsFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, file))
		return err == nil
	})
}

// forbidServices keeps proxies from being started as services of this machine
// while they are installed: Debian's maintainer scripts ask
// /usr/sbin/policy-rc.d.
func forbidServices() (restore func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.WriteString("#!/bin/sh\nexit 101\n"); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(policy) }, nil
}
