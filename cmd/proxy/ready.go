package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// readyTimeout bounds the probe, and how long whoever asks may take to take the answer.
	readyTimeout = time.Second
	// readyPause is between two tries to take a probe in, where that failed.
	readyPause = 100 * time.Millisecond
	// isReady is the answer where requests may come. Any other says why not.
	isReady = "ready"
)

// state is what readiness is decided from.
type state struct {
	// applied says whether anything to serve was, from a controller or from a snapshot.
	applied bool
	// missing are ports that are needed and not listened at, and why.
	missing map[uint16]string
	// draining says whether the proxy is to end.
	draining bool
}

// look asks for what was applied first: its ports have been tried by then.
func look(applied func() bool, missing func() map[uint16]string, draining func() bool) (s state) {
	s.applied = applied()
	s.missing, s.draining = missing(), draining()
	return s
}

// unready is why no requests are to come, empty where they may.
func (s state) unready() string {
	switch {
	case s.draining:
		return "it drains, and then ends"
	case !s.applied:
		return "no controller has told it what to serve, and there is no snapshot"
	case len(s.missing) > 0:
		var each []string
		for _, port := range slices.Sorted(maps.Keys(s.missing)) {
			each = append(each, fmt.Sprintf("port %d: %s", port, s.missing[port]))
		}
		return "it cannot listen at " + strings.Join(each, ", ")
	}
	return ""
}

// condition is how the proxy stands at any time.
type condition struct {
	applied  func() bool
	missing  func() map[uint16]string
	draining atomic.Bool
	// wasReady says whether requests were to come before.
	wasReady atomic.Bool
}

// unready is why no requests are to come now, empty where they may. One that was ready does not end to be for want of a
// port: what is served on is not to be taken from all, on all nodes at once.
func (c *condition) unready() string {
	s := look(c.applied, c.missing, c.draining.Load)
	if c.wasReady.Load() {
		s.missing = nil
	}
	why := s.unready()
	if why == "" {
		c.wasReady.Store(true)
	}
	return why
}

// askReady is the readiness probe of the proxy that has that socket: nil where requests may come.
func askReady(socket string) error {
	answer, err := ask(socket)
	if err == nil && answer != isReady {
		err = fmt.Errorf("not ready: %s", answer)
	}
	return err
}

// ask gets what the proxy says of itself. One that is frozen says nothing, whether it drains or not: the liveness probe
// goes by that.
func ask(socket string) (answer string, err error) {
	deadline := time.Now().Add(readyTimeout)
	conn, err := net.DialTimeout("unix", socket, readyTimeout)
	if err != nil {
		return "", fmt.Errorf("asking the proxy: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("asking the proxy: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(conn, 4<<10))
	switch {
	case err != nil:
		return "", fmt.Errorf("asking the proxy: %w", err)
	case len(content) == 0:
		return "", errors.New("not ready: it does not say why")
	}
	return string(content), nil
}

// readiness answers ask on a Unix socket: on the network of a node a probe of a port would reach any
// proxy of the node.
type readiness struct {
	net.Listener
	unready func() string
	log     *slog.Logger
}

// listenReady answers until Close. The socket is its owner's alone, and takes the place of one that a proxy
// which was killed has left.
func listenReady(socket string, log *slog.Logger, unready func() string) (*readiness, error) {
	switch was, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("--ready-socket: %w", err)
	case was.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("--ready-socket: %s is there, and is no socket", socket)
	default:
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("--ready-socket: %w", err)
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("--ready-socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("--ready-socket: %w", err)
	}
	r := &readiness{l, unready, log}
	go r.answerAll()
	return r, nil
}

func (r *readiness) answerAll() {
	for {
		conn, err := r.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			r.log.Warn("a readiness probe cannot be taken in", "error", err)
			time.Sleep(readyPause)
		default:
			r.answer(conn)
		}
	}
}

// answer answers one probe. Whoever does not take the answer asks again.
func (r *readiness) answer(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(readyTimeout))
	io.WriteString(conn, cmp.Or(r.unready(), isReady))
}
