// Command cmd runs the emulator of AWS. Its configuration (aws.Config) comes as JSON from a
// file or from standard input; it prints its addresses as one line of JSON when it
// listens. It ends at SIGTERM or SIGINT, or, when the configuration came from standard
// input, when that is closed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
)

func main() {
	file := flag.String("config", "-", "file with the configuration, or - for standard input")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	config, ctx, err := read(ctx, file)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	server, err := aws.Start(ctx, config)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(server.Addresses); err != nil {
		return fmt.Errorf("printing the addresses: %w", err)
	}
	server.Wait()
	return nil
}

// read returns the configuration and a context that also ends when standard input does,
// if the configuration came from there.
func read(ctx context.Context, file string) (config aws.Config, _ context.Context, err error) {
	source := os.Stdin
	if file != "-" {
		if source, err = os.Open(file); err != nil {
			return config, ctx, err
		}
		defer source.Close()
	}
	decoder := json.NewDecoder(source)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil || file != "-" {
		return config, ctx, err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return config, ctx, nil
}
