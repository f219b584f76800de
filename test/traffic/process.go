package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// A process of its own tells of itself so often, and sends for so long at most.
const (
	snapshotInterval = 500 * time.Millisecond
	longest          = time.Hour
)

// Message is one line of what Main writes: a snapshot twice a second, then one report, or an
// error.
type Message struct {
	Snapshot *Snapshot `json:"snapshot,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Main is what a process of its own does: it reads options (Options) as JSON from in, sends what
// they ask for, and writes messages to out, each a line of JSON. It stops with ctx, when in is
// closed, and after the options' duration, at most an hour.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := json.NewEncoder(out)
	err := run(ctx, in, lines)
	if err != nil {
		lines.Encode(Message{Error: err.Error()})
	}
	return err
}

func run(ctx context.Context, in io.Reader, lines *json.Encoder) error {
	var options Options
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&options); err != nil {
		return fmt.Errorf("reading options: %w", err)
	}
	options.Duration = min(options.Duration, longest)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	sending, err := Start(ctx, options)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(snapshotInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			snapshot := sending.Snapshot()
			lines.Encode(Message{Snapshot: &snapshot})
		case <-sending.Done():
			report := sending.Stop()
			return lines.Encode(Message{Report: &report})
		}
	}
}

// Process is traffic sent by another process that does Main. That process can be in another
// network namespace than ours.
type Process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	stderr  bytes.Buffer
	timeout time.Duration
	done    chan struct{} // closed when the process has exited

	mu       sync.Mutex
	snapshot Snapshot
	report   *Report
	err      error
}

// StartProcess starts the command with the options on its standard input. The
// process stops when that input closes, so it does not outlive this one.
func StartProcess(cmd *exec.Cmd, options Options) (*Process, error) {
	complete, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("traffic options: %w", err)
	}
	p := &Process{cmd: cmd, timeout: complete.Timeout, done: make(chan struct{})}
	cmd.Stderr = &p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("traffic command: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("traffic command: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("traffic command: %w", err)
	}
	p.stdin = stdin
	go p.follow(stdout)
	if err := json.NewEncoder(stdin).Encode(complete); err != nil {
		stdin.Close()
		<-p.done
		return nil, fmt.Errorf("traffic command: %w: %s", err, p.stderr.String())
	}
	return p, nil
}

// follow keeps the latest of what the process tells until it exits.
func (p *Process) follow(stdout io.Reader) {
	defer close(p.done)
	decoder := json.NewDecoder(stdout)
	for {
		var m Message
		if err := decoder.Decode(&m); err != nil {
			break
		}
		p.keep(m)
	}
	io.Copy(io.Discard, stdout)
	err := p.cmd.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report == nil && p.err == nil {
		p.err = fmt.Errorf("traffic command ended without a report: %v: %s", err, p.stderr.String())
	}
}

func (p *Process) keep(m Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.Error != "":
		p.err = errors.New(m.Error)
	case m.Report != nil:
		p.report, p.snapshot = m.Report, m.Report.Snapshot
	case m.Snapshot != nil:
		p.snapshot = *m.Snapshot
	}
}

// Snapshot returns the counts as of at most half a second ago; before the first
// ones came it is empty.
func (p *Process) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

// Done is closed when the process has exited, by itself or through Stop.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the traffic, waits for the requests under way and returns the report. A
// process that does not end in time is killed. It may be called again.
func (p *Process) Stop() (Report, error) {
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(p.timeout + 10*time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report == nil {
		return Report{}, p.err
	}
	return *p.report, nil
}
