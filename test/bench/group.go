package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// running is a program with the processes that it has started.
type running struct {
	name    string
	process *os.Process
	log     string
	ended   chan struct{}
}

// startGroup starts a command in a process group of its own, which ends with the command or its context. What it
// says goes to a file.
func startGroup(log, name string, cmd *exec.Cmd) (*running, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 10*time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	r := &running{name: name, process: cmd.Process, log: log, ended: make(chan struct{})}
	go func() {
		cmd.Wait()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		close(r.ended)
	}()
	return r, nil
}

// end ends the group, and returns when it has ended.
func (r *running) end() error {
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s has ended before: %s", r.name, r.said())
	}
	select {
	case <-r.ended:
	case <-time.After(10 * time.Second):
		syscall.Kill(-r.process.Pid, syscall.SIGKILL)
		<-r.ended
	}
	return nil
}

// said are the last lines that it wrote.
func (r *running) said() string {
	content, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	const enough = 2 << 10
	return string(content[max(0, len(content)-enough):])
}

// awaitPort returns when it listens.
func (r *running) awaitPort(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := until(ctx, func() (bool, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			conn.Close()
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("%s does not listen: %w: %s", r.name, err, r.said())
	}
	return nil
}

// cpu is the processor time of its processes.
func (r *running) cpu() (sum time.Duration, err error) {
	pids, err := r.processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		used, err := cpuTime(pid)
		if err != nil {
			return 0, fmt.Errorf("processor time of %s: %w", r.name, err)
		}
		sum += used
	}
	return sum, nil
}

// processes are the program's own and those that it has started.
func (r *running) processes() ([]int, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/task/%d/children", r.process.Pid, r.process.Pid))
	if err != nil {
		return nil, fmt.Errorf("%s has ended: %w: %s", r.name, err, r.said())
	}
	defer file.Close()
	pids := []int{r.process.Pid}
	words := bufio.NewScanner(file)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		pid, err := strconv.Atoi(words.Text())
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, words.Err()
}

// cpuTime is the processor time that all threads of a process have used, the kernel's for it too, by the clock
// that clock_getcpuclockid(3) names: /proc counts in hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	const ofProcess = 2
	var at unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|ofProcess), &at)
	return time.Duration(at.Nano()), err
}
