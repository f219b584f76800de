//go:build !linux

package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func namespaces(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// startTime cannot be known without /proc; the process must exist.
func startTime(pid int) (string, error) {
	if err := syscall.Kill(pid, 0); err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	return "", nil
}

func shortPath(folder *os.File, name string) string {
	return filepath.Join(folder.Name(), name)
}

// Processes cannot find processes without /proc.
func Processes(string) ([]int, error) {
	return nil, errors.ErrUnsupported
}
