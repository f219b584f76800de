package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

const (
	// socketTimeout is how long HAProxy may take to answer one command.
	socketTimeout = 3 * time.Second
	// quietSeconds is how long ago the last session must have begun. HAProxy chooses
	// a server a moment before it counts the session; its seconds are whole ones.
	quietSeconds = 2
)

// haproxy is the address of a runtime socket: a path, or host:port.
type haproxy string

// server is a server of a backend, as `show stat` has it (HAProxy's management
// guide, section 9.1).
type server struct {
	backend, name string
	// host is the address without the port.
	host string
	// status is UP, UP 1/2 where a check has failed, DOWN, DRAIN, MAINT, no check, …
	status string
	// check is the result of the last check, such as L7OK; INI before the first.
	check string
	// sessions are requests under way, in mode tcp open connections, and queued ones.
	sessions int
	// quiet is how many seconds ago the last session began; -1 where none ever did.
	quiet int
}

// move tells HAProxy to stop or to send traffic to the servers that are the node's,
// and gives what is missing until that is so. Asked again it changes nothing.
// Maintenance is a person's doing and is left alone.
func (h haproxy) move(ctx context.Context, node webhook.Node, action webhook.Action) (known bool, missing string, err error) {
	servers, err := h.serversOf(ctx, node)
	if err != nil || len(servers) == 0 {
		return false, "", err
	}
	for _, s := range servers {
		if err := h.set(ctx, s, action); err != nil {
			return true, "", err
		}
	}
	if servers, err = h.serversOf(ctx, node); err != nil {
		return true, "", err
	}
	var reasons []string
	for _, s := range servers {
		if reason := s.missing(action); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s/%s %s", s.backend, s.name, reason))
		}
	}
	return true, strings.Join(reasons, ", "), nil
}

func (h haproxy) set(ctx context.Context, s server, action webhook.Action) error {
	if s.maintained() {
		return nil
	}
	state := map[webhook.Action]string{webhook.Detach: "drain", webhook.Attach: "ready"}[action]
	answer, err := h.command(ctx, fmt.Sprintf("set server %s/%s state %s", s.backend, s.name, state))
	if answer = strings.TrimSpace(answer); err == nil && answer != "" {
		err = errors.New(answer)
	}
	if err != nil {
		return fmt.Errorf("setting %s/%s to %s: %w", s.backend, s.name, state, err)
	}
	return nil
}

func (s server) missing(action webhook.Action) string {
	if action == webhook.Detach {
		return s.busy()
	}
	return s.down()
}

func (s server) maintained() bool { return strings.HasPrefix(s.status, "MAINT") }

// busy is why traffic to the server has not stopped, empty where it has.
func (s server) busy() string {
	switch {
	case s.sessions > 0:
		return fmt.Sprintf("has %d sessions", s.sessions)
	case s.quiet >= 0 && s.quiet < quietSeconds:
		return "got a session a moment ago"
	}
	return ""
}

// down is why the server gets no traffic, empty where it does. Before its first
// check HAProxy takes a server to be up.
func (s server) down() string {
	switch {
	case s.status == "UP" && s.check != "INI" || s.status == "no check":
		return ""
	case s.maintained():
		return "is in maintenance: end it with `set server " + s.backend + "/" + s.name + " state ready`"
	}
	return fmt.Sprintf("is %s, its last check says %s", s.status, s.check)
}

// serversOf gives the servers that have the node's name. Where none does but one
// has an address of the node, the name is wrong, and to say that there is nothing to
// stop would be too.
func (h haproxy) serversOf(ctx context.Context, node webhook.Node) ([]server, error) {
	all, err := h.servers(ctx)
	if err != nil {
		return nil, err
	}
	named := slices.DeleteFunc(slices.Clone(all), func(s server) bool { return s.name != node.Name })
	if len(named) > 0 {
		return named, nil
	}
	for _, s := range all {
		isHost := func(a webhook.Address) bool { return a.Address == s.host }
		if slices.ContainsFunc(node.Addresses, isHost) {
			return nil, fmt.Errorf("server %s/%s has address %s of node %s: give it the node's name", s.backend, s.name, s.host, node.Name)
		}
	}
	return nil, nil
}

// servers gives all servers of all backends.
func (h haproxy) servers(ctx context.Context) ([]server, error) {
	text, err := h.command(ctx, "show stat -1 4 -1")
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# "))).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("its statistics are %.100q: %v", text, err)
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[name] = i
	}
	var out []server
	for _, row := range rows[1:] {
		s, err := read(columns, row)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// read makes a server of a row. A column that is missing or no number is an error:
// taken for 0 it would say that traffic has stopped.
func read(columns map[string]int, row []string) (server, error) {
	var wrong error
	text := func(name string) string {
		at, ok := columns[name]
		if !ok {
			wrong = fmt.Errorf("its statistics have no column %s: is the level of the socket admin?", name)
			return ""
		}
		return row[at]
	}
	number := func(name string) int {
		value, err := strconv.Atoi(text(name))
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("its statistics: %s: %w", name, err)
		}
		return value
	}
	s := server{
		backend: text("pxname"), name: text("svname"), status: text("status"),
		check:    strings.TrimPrefix(text("check_status"), "* "),
		sessions: number("scur") + number("qcur"), quiet: number("lastsess"),
	}
	s.host, _, _ = net.SplitHostPort(text("addr"))
	return s, wrong
}

// command gives the answer to one command, for which HAProxy opens a connection.
func (h haproxy) command(ctx context.Context, text string) (string, error) {
	network := "tcp"
	if strings.Contains(string(h), "/") {
		network = "unix"
	}
	dialer := net.Dialer{Timeout: socketTimeout}
	conn, err := dialer.DialContext(ctx, network, string(h))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(socketTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
