// Package lb runs Debian's HAProxy as the external load balancer in front of a
// cluster: an http frontend as an application load balancer is one, a tcp frontend as
// a network load balancer is one. Neither sends a request a second time, so that what a
// rollout loses reaches the client.
package lb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
	pollInterval = 50 * time.Millisecond
)

// Runner makes a command that runs in the load balancer's network namespace, such as
// exec.CommandContext for our own.
type Runner func(ctx context.Context, path string, args ...string) *exec.Cmd

// LB is a running HAProxy.
type LB struct {
	cmd    *exec.Cmd
	admin  admin
	log    string
	exited chan struct{}
	err    error // of the process, valid once exited is closed
}

// Start writes the configuration, starts HAProxy through run and returns when it
// listens. HAProxy is killed when ctx ends.
func Start(ctx context.Context, run Runner, options Options) (*LB, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("load balancer options: %w", err)
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("load balancer directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("load balancer directory: %w", err)
	}
	b := &LB{admin: admin{filepath.Join(dir, "admin.sock")}, log: filepath.Join(dir, "haproxy.log"), exited: make(chan struct{})}
	os.Remove(b.admin.socket) // of a HAProxy that was killed, so that none but ours answers
	config := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(config, options.config(b.admin.socket), 0o644); err != nil {
		return nil, fmt.Errorf("load balancer configuration: %w", err)
	}
	b.cmd = run(ctx, "/usr/sbin/haproxy", "-db", "-f", config)
	if err := b.start(); err != nil {
		return nil, fmt.Errorf("starting haproxy: %w", err)
	}
	if err := b.awaitListening(ctx); err != nil {
		b.Stop()
		return nil, fmt.Errorf("starting haproxy: %w\n%s", err, b.Log())
	}
	return b, nil
}

func (b *LB) start() error {
	log, err := os.Create(b.log)
	if err != nil {
		return err
	}
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		return err
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.exited)
	}()
	return nil
}

// awaitListening waits for an answer on the admin socket: HAProxy binds all its
// frontends before it answers there.
func (b *LB) awaitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return b.poll(ctx, func() (bool, error) {
		_, err := b.admin.command("show info")
		return err == nil, nil
	})
}

// poll calls reached until it says so, fails, ctx ends or HAProxy exits.
func (b *LB) poll(ctx context.Context, reached func() (bool, error)) error {
	for {
		if ok, err := reached(); ok || err != nil {
			return err
		}
		select {
		case <-b.exited:
			return fmt.Errorf("haproxy exited: %v", b.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// Socket is the path of HAProxy's runtime API, which people call as its management guide says.
func (b *LB) Socket() string { return b.admin.socket }

// Stop ends HAProxy at once, connections included. It may be called again.
func (b *LB) Stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping haproxy: %w", err)
	}
	select {
	case <-b.exited:
	case <-time.After(stopTimeout):
		b.cmd.Process.Kill()
		<-b.exited
	}
	return nil
}

// Log returns what HAProxy wrote: changes of the servers' states, and a line for each
// request or connection that went wrong, with HAProxy's termination state. Each line
// begins with its time (RFC 3339).
func (b *LB) Log() string {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
