package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine is a machine that was booted, by this process or another.
type Machine struct {
	dir string
}

// BootOptions is how a machine meets the world outside.
type BootOptions struct {
	// Init is the program in ./init.
	Init string
	// Listener, if set, is a listening socket whose connections the machine
	// forwards to Spec.ForwardTo. A socket stays in the network namespace it
	// was made in, so it is a door through the machine's wall.
	Listener *os.File
	// Connect, if set, is called when the machine's namespaces exist and no
	// service runs yet, with the process that holds them.
	Connect func(pid int) error
}

// Boot starts a machine and returns when its services have been started.
// The machine outlives the calling process.
func Boot(ctx context.Context, spec Spec, o BootOptions) (*Machine, error) {
	if err := spec.write(); err != nil {
		return nil, err
	}
	m := &Machine{dir: spec.Dir}
	if err := m.boot(ctx, spec, o); err != nil {
		return nil, fmt.Errorf("boot %s: %w", spec.Name, errors.Join(err, m.PowerOff(context.WithoutCancel(ctx))))
	}
	return m, nil
}

func (m *Machine) boot(ctx context.Context, spec Spec, o BootOptions) error {
	log, err := os.Create(filepath.Join(spec.Dir, "init.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	// The machine's first process waits on this pipe until it is connected,
	// and gives up when this process dies before that.
	connected, connect, err := os.Pipe()
	if err != nil {
		return err
	}
	defer connect.Close()

	cmd := exec.Command(o.Init, spec.Dir)
	// The caller's environment, its proxies for instance, stays outside.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), ClusterVariable + "=" + spec.Cluster}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{connected}
	if o.Listener != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.Listener)
	}
	cmd.SysProcAttr = namespaces(spec.Isolated)
	err = cmd.Start()
	connected.Close()
	if err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	if err := m.writePID(cmd.Process.Pid); err != nil {
		return err
	}
	if o.Connect != nil {
		if err := o.Connect(cmd.Process.Pid); err != nil {
			return err
		}
	}
	if _, err := connect.Write([]byte{1}); err != nil {
		return fmt.Errorf("it died at once: %s", m.initLog())
	}
	return m.waitForServices(ctx, exited)
}

func (m *Machine) waitForServices(ctx context.Context, exited <-chan struct{}) error {
	for {
		_, err := m.Services(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("it died at once: %s", m.initLog())
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (m *Machine) initLog() string {
	data, _ := os.ReadFile(filepath.Join(m.dir, "init.log"))
	return strings.TrimSpace(string(data))
}

// Open returns the machine in dir, which may be powered off.
func Open(dir string) *Machine {
	return &Machine{dir: dir}
}

// PID returns the process that holds the machine's namespaces. It fails when
// the machine is powered off.
func (m *Machine) PID() (int, error) {
	data, err := os.ReadFile(m.pidFile())
	if err != nil {
		return 0, fmt.Errorf("%s is powered off", filepath.Base(m.dir))
	}
	pidText, startedText, _ := strings.Cut(string(data), " ")
	pid, err := strconv.Atoi(pidText)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.pidFile(), err)
	}
	// A process number is used again after its process has gone; with the
	// time it started at it is unique.
	if started, err := startTime(pid); err != nil || started != startedText {
		return 0, fmt.Errorf("%s is powered off", filepath.Base(m.dir))
	}
	return pid, nil
}

func (m *Machine) pidFile() string { return filepath.Join(m.dir, "pid") }

func (m *Machine) writePID(pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(m.pidFile(), fmt.Appendf(nil, "%d %s", pid, started), 0o644)
}

// PowerOff kills all of the machine at once, as pulling the plug does, and
// returns when it is gone. To power off what is off does nothing.
func (m *Machine) PowerOff(ctx context.Context) error {
	pid, err := m.PID()
	if err != nil {
		return nil
	}
	// Without a process namespace the children are in the process group.
	for _, target := range []int{-pid, pid} {
		if err := syscall.Kill(target, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("power off %s: %w", filepath.Base(m.dir), err)
		}
	}
	for {
		if _, err := m.PID(); err != nil {
			_ = os.Remove(m.pidFile())
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("power off %s: %w", filepath.Base(m.dir), err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
