// Package apart runs what a benchmark needs beside it in a process of its own, so that it is not
// measured with it, and measures.
package apart

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// variable says in the environment of a process that it is one that Start has started.
const variable = "BENCHMARK_RUNS_APART"

// Main runs what the process is for, and ends it, in one that Start has started. TestMain calls it first.
func Main(run func()) {
	if os.Getenv(variable) != "" {
		run()
		os.Exit(0)
	}
}

// Process is one that was started: it runs what the tests' TestMain gives to Main.
type Process struct {
	in  io.Writer
	out *bufio.Reader
}

// Start starts a process, which ends with the benchmark when it has read its input to the end.
func Start(b *testing.B) *Process {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &Process{in, bufio.NewReader(out)}
}

// Tell writes a line to the process's input.
func (p *Process) Tell(b *testing.B, words ...any) {
	b.Helper()
	if _, err := fmt.Fprintln(p.in, words...); err != nil {
		b.Fatal(err)
	}
}

// Line is the next one of the process's output, without its end.
func (p *Process) Line(b *testing.B) string {
	b.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// Measure runs the benchmark's b.N operations, and reports as cpu-µs/op the processor time that each took
// in this process, the kernel's and ours.
func Measure(b *testing.B, operations func()) {
	b.Helper()
	b.ReportAllocs()
	begun := used(b)
	operations()
	b.ReportMetric(float64((used(b)-begun).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}

func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
