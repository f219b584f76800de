// Command waitshutdown is a preStop hook: it tells nginx to quit gracefully and returns when it
// has, so that the container gets no signal before its last connection has ended.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const pidFile = "/run/nginx.pid"

func main() {
	timeout := flag.Duration("timeout", 290*time.Second, "how long to wait at most")
	flag.Parse()
	if err := run(*timeout); err != nil {
		fmt.Fprintln(os.Stderr, "wait-shutdown:", err)
		os.Exit(1)
	}
}

func run(timeout time.Duration) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", pidFile, err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("telling nginx to quit: %w", err)
	}
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return nil
		}
	}
	return fmt.Errorf("nginx has not quit within %s", timeout)
}
