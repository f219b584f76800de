// Command cmd sends the requests that its options ask for, and prints a JSON line with a
// snapshot twice a second, then one with the report. It stops at SIGTERM or SIGINT,
// after the options' duration (at most an hour), or, when the options came on
// standard input, when that is closed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

const (
	snapshotInterval = 500 * time.Millisecond
	longest          = time.Hour
)

func main() {
	text := flag.String("options", "-", "the options as JSON, or - to read them from standard input")
	duration := flag.Duration("duration", 0, "how long to send, instead of the options' duration")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *text, *duration); err != nil {
		json.NewEncoder(os.Stdout).Encode(traffic.Message{Error: err.Error()})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, text string, duration time.Duration) error {
	options, ctx, err := read(ctx, text)
	if err != nil {
		return fmt.Errorf("reading options: %w", err)
	}
	if duration > 0 {
		options.Duration = duration
	}
	options.Duration = min(options.Duration, longest)

	sending, err := traffic.Start(ctx, options)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	ticker := time.NewTicker(snapshotInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			snapshot := sending.Snapshot()
			out.Encode(traffic.Message{Snapshot: &snapshot})
		case <-sending.Done():
			report := sending.Stop()
			return out.Encode(traffic.Message{Report: &report})
		}
	}
}

// read returns the options and a context that also ends when standard input does, if
// the options came from there.
func read(ctx context.Context, text string) (traffic.Options, context.Context, error) {
	var options traffic.Options
	var source io.Reader = os.Stdin
	if text != "-" {
		source = strings.NewReader(text)
	}
	decoder := json.NewDecoder(source)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&options); err != nil || text != "-" {
		return options, ctx, err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return options, ctx, nil
}
