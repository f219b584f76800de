package lb

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status is what HAProxy makes of a server.
type Status string

const (
	Up    Status = "UP"
	Down  Status = "DOWN"
	Drain Status = "DRAIN" // no new sessions, health checked; set by Drain
	Maint Status = "MAINT" // no new sessions, not checked; set by Disable
)

// ServerState is a server in one backend.
type ServerState struct {
	Backend         Mode
	Name            string
	Status          Status
	Check           string // the last health check's result, such as L7OK, L7STS or L4CON; INI before the first
	CurrentSessions int    // http: requests under way; tcp: open connections
	Sessions        int    // so far
}

// Servers returns the state of every server, backend by backend.
func (b *LB) Servers() ([]ServerState, error) {
	text, err := b.admin.command("show stat -1 4 -1") // all proxies, servers only
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# "))).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("haproxy statistics %.100q: %v", text, err)
	}
	var servers []ServerState
	for _, row := range rows[1:] {
		value := func(column string) string { return row[slices.Index(rows[0], column)] }
		status, _, _ := strings.Cut(value("status"), " ") // "UP 1/2" is still up
		current, _ := strconv.Atoi(value("scur"))
		total, _ := strconv.Atoi(value("stot"))
		servers = append(servers, ServerState{
			Backend: Mode(value("pxname")), Name: value("svname"), Status: Status(status),
			Check: strings.TrimPrefix(value("check_status"), "* "), CurrentSessions: current, Sessions: total,
		})
	}
	return servers, nil
}

// Disable takes the server out of all backends, health checks included; what is under
// way on it goes on.
func (b *LB) Disable(server string) error { return b.setState(server, "maint") }

// Drain gives the server no new sessions in any backend. It is still health checked, so
// that Enable after it gives traffic to a healthy server only.
func (b *LB) Drain(server string) error { return b.setState(server, "drain") }

// Enable puts the server back into all backends. After Disable, HAProxy takes it for
// healthy until its checks fail.
func (b *LB) Enable(server string) error { return b.setState(server, "ready") }

func (b *LB) setState(server, state string) error { return b.set(server, "state "+state) }

// MoveCheck has the server's health check ask another port from now on.
func (b *LB) MoveCheck(server string, port int) error {
	return b.set(server, fmt.Sprintf("check-port %d", port))
}

// set changes the server in all backends.
func (b *LB) set(server, setting string) error {
	states, err := b.of(server)
	if err != nil {
		return err
	}
	for _, s := range states {
		answer, err := b.admin.command(fmt.Sprintf("set server %s/%s %s", s.Backend, s.Name, setting))
		if err == nil && strings.TrimSpace(answer) != "" {
			err = fmt.Errorf("haproxy says %q", strings.TrimSpace(answer))
		}
		if err != nil {
			return fmt.Errorf("setting server %s to %s: %w", server, setting, err)
		}
	}
	return nil
}

// WaitUp waits until the server is up in all backends and has passed a check in each: HAProxy
// believes a server to be up before the first one.
func (b *LB) WaitUp(ctx context.Context, server string) error {
	return b.wait(ctx, server, func(s ServerState) bool { return s.Status == Up && s.Check == "L7OK" })
}

// WaitDown waits until no backend gives the server anything new: its checks failed,
// or it is disabled or draining.
func (b *LB) WaitDown(ctx context.Context, server string) error {
	return b.wait(ctx, server, func(s ServerState) bool { return s.Status != Up })
}

func (b *LB) wait(ctx context.Context, server string, wanted func(ServerState) bool) error {
	var last []ServerState
	err := b.poll(ctx, func() (bool, error) {
		states, err := b.of(server)
		last = states
		return !slices.ContainsFunc(states, func(s ServerState) bool { return !wanted(s) }), err
	})
	if err != nil {
		return fmt.Errorf("waiting for server %s, last seen %+v: %w", server, last, err)
	}
	return nil
}

// of returns the server's state in each backend.
func (b *LB) of(server string) ([]ServerState, error) {
	states, err := b.Servers()
	if err != nil {
		return nil, err
	}
	states = slices.DeleteFunc(states, func(s ServerState) bool { return s.Name != server })
	if len(states) == 0 {
		return nil, fmt.Errorf("haproxy has no server %s", server)
	}
	return states, nil
}

// admin speaks to HAProxy's runtime API, one connection a command.
type admin struct{ socket string }

func (a admin) command(text string) (string, error) {
	conn, err := net.DialTimeout("unix", a.socket, time.Second)
	if err != nil {
		return "", fmt.Errorf("haproxy admin socket: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return "", fmt.Errorf("haproxy admin socket: %w", err)
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		return "", fmt.Errorf("haproxy admin socket: %w", err)
	}
	return string(answer), nil
}
