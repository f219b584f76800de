package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

const (
	readyName    = "ready.sock"
	readyTimeout = 2 * time.Second
)

var errNotReady = errors.New("the health checker does not answer health checks yet")

// Ready is the readiness probe of the checker that has the given folder: nil
// where it answers health checks, 200 or 503 alike, from a known state.
func Ready(stateDir string) error {
	conn, err := net.DialTimeout("unix", filepath.Join(stateDir, readyName), readyTimeout)
	if err != nil {
		return fmt.Errorf("asking the health checker: %w", err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
		return fmt.Errorf("asking the health checker: %w", err)
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("asking the health checker: %w", err)
	}
	if answer[0] != 1 {
		return errNotReady
	}
	return nil
}

// readiness answers Ready on a Unix socket. A port would be one more to choose on
// a host network that several checkers share.
type readiness struct {
	net.Listener
	ready atomic.Bool
	log   *slog.Logger
}

func newReadiness(stateDir string, log *slog.Logger) (*readiness, error) {
	name := filepath.Join(stateDir, readyName)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the readiness socket of an earlier run: %w", err)
	}
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("opening the readiness socket: %w", err)
	}
	return &readiness{Listener: l, log: log}, nil
}

// run answers until ctx is done.
func (r *readiness) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { r.Close() })()
	for ctx.Err() == nil {
		if err := r.answer(); err != nil && ctx.Err() == nil {
			r.log.Warn("Readiness probe could not be answered", "error", err)
			time.Sleep(portRetry)
		}
	}
}

func (r *readiness) answer() error {
	conn, err := r.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	var answer [1]byte
	if r.ready.Load() {
		answer[0] = 1
	}
	_, err = conn.Write(answer[:])
	return err
}
