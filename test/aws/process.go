package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

const stopTimeout = 5 * time.Second

// Main is what a process of its own does: it reads a configuration (Config) as JSON from in,
// writes its addresses to out as one line of JSON when it listens, and ends with ctx or when in
// is closed.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	var config Config
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	server, err := Start(ctx, config)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(server.Addresses); err != nil {
		return fmt.Errorf("printing the addresses: %w", err)
	}
	server.Wait()
	return nil
}

// Process is a server in a process of its own that does Main, which can be in another network
// namespace than ours.
type Process struct {
	Addresses
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
}

// StartProcess starts the command with the configuration on its standard input and
// returns when it listens. The process ends when that input closes, so it does not
// outlive this one.
func StartProcess(cmd *exec.Cmd, config Config) (*Process, error) {
	var stderr bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("aws command: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("aws command: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("aws command: %w", err)
	}
	p := &Process{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	wrote := json.NewEncoder(stdin).Encode(config)
	read := json.NewDecoder(stdout).Decode(&p.Addresses)
	go func() {
		io.Copy(io.Discard, stdout)
		cmd.Wait()
		close(p.exited)
	}()
	if err := errors.Join(wrote, read); err != nil {
		p.Stop()
		return nil, fmt.Errorf("aws command: %w: %s", err, &stderr)
	}
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop ends the process and all flows through it. It may be called again.
func (p *Process) Stop() {
	p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.exited
	}
}
