package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/cluster/machine"
)

// isolate gives the machine its own mounts, host name and kernel settings. No
// mount made here or by a service is seen outside.
func isolate(spec *machine.Spec) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Inside, containers may ask for mounts that propagate, as on any node.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared inside: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := enterControlGroups(spec.ControlGroups); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if err := mount(m); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	if err := syscall.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	for name, value := range spec.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("set kernel parameter: %w", err)
		}
	}
	return raiseOpenFiles()
}

// raiseOpenFiles gives services and containers all the open files that the
// machine allows, as the units of distributions do.
func raiseOpenFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return nil
}

func mount(m machine.Mount) error {
	if m.Source == "" {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return err
		}
		return syscall.Mount("tmpfs", m.Target, "tmpfs", 0, "mode=755")
	}
	source, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	if source.IsDir() {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return err
		}
	}
	return syscall.Mount(m.Source, m.Target, "", syscall.MS_BIND|syscall.MS_REC, "")
}
