package forward

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

const (
	proxyStart = 10 * time.Second
	countEvery = 100 * time.Millisecond
	purgeEvery = time.Second
)

//go:embed haproxy.cfg.tmpl
var proxyConfig string

var proxyTemplate = template.Must(template.New("haproxy.cfg").Parse(proxyConfig))

// proxy is a HAProxy that carries the HTTP of one balancer: a backend for each socket,
// and in it a server for each registration, named by its number.
type proxy struct {
	cloud   *cloud.Cloud
	truth   *truth
	sockets []cloud.Socket
	socket  string // of the runtime API
	keep    bool   // its files
	cmd     *exec.Cmd
	exited  chan struct{}

	servers         map[server]*serverState
	counted, purged time.Time
}

type server struct {
	backend int
	number  int
}

func (s server) String() string { return fmt.Sprintf("out%d/r%d", s.backend, s.number) }

type serverState struct {
	lease          cloud.Lease
	added          time.Time
	ready          bool
	cuts           []time.Time // that were carried out
	requests, open int         // as last told
}

func startProxy(p *Plane, sockets []cloud.Socket) (*proxy, error) {
	dir, err := os.MkdirTemp(p.options.Dir, "haproxy")
	if err != nil {
		return nil, err
	}
	x := &proxy{keep: p.options.Dir != "", cloud: p.cloud, truth: p.truth, sockets: sockets, socket: filepath.Join(dir, "admin"), exited: make(chan struct{}), servers: map[server]*serverState{}}
	var config bytes.Buffer
	if err := proxyTemplate.Execute(&config, map[string]any{"Socket": x.socket, "Sockets": sockets}); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "haproxy.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	x.cmd = exec.Command(p.options.HAProxy, "-db", "-f", file)
	x.cmd.Stdout, x.cmd.Stderr = log, log
	if err := startWithParent(x.cmd, x.exited); err != nil {
		return nil, err
	}
	if err := x.await(); err != nil {
		x.stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return x, nil
}

// await waits until HAProxy answers, which it does after it has bound all addresses.
func (x *proxy) await() error {
	for deadline := time.Now().Add(proxyStart); ; time.Sleep(tick) {
		_, err := x.command("show info")
		if err == nil {
			return nil
		}
		select {
		case <-x.exited:
			return errors.New("it exited")
		default:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (x *proxy) stop() {
	x.cmd.Process.Kill()
	<-x.exited
	if !x.keep {
		os.RemoveAll(filepath.Dir(x.socket))
	}
}

// follow makes HAProxy send to the targets of the model, and no others; ends what is to
// be cut; and counts.
func (x *proxy) follow(now time.Time) {
	var commands []string
	for i, socket := range x.sockets {
		eligible := map[int]bool{}
		for _, lease := range x.cloud.Eligible(socket, "", now) {
			eligible[lease.Number] = true
			commands = append(commands, x.admit(server{i, lease.Number}, lease, now)...)
		}
		for _, s := range x.sorted() {
			if s.backend == i && !eligible[s.number] && x.servers[s].ready {
				x.servers[s].ready = false
				commands = append(commands, fmt.Sprintf("set server %s state maint", s))
			}
		}
	}
	if len(commands) > 0 || now.Sub(x.counted) >= countEvery {
		x.tell(commands)
		x.counted = now
		x.count(now)
	}
	for _, s := range x.sorted() {
		x.cut(s, now)
	}
	if now.Sub(x.purged) >= purgeEvery {
		x.purged = now
		x.purge()
	}
}

func (x *proxy) sorted() []server {
	return slices.SortedFunc(maps.Keys(x.servers), func(a, b server) int { return (a.backend-b.backend)*1e6 + a.number - b.number })
}

// admit gives a target new requests.
func (x *proxy) admit(s server, lease cloud.Lease, now time.Time) []string {
	var commands []string
	state := x.servers[s]
	if state == nil {
		state = &serverState{lease: lease, added: now}
		x.servers[s] = state
		commands = append(commands, fmt.Sprintf("add server %s %s", s, lease.Address))
	}
	if !state.ready {
		state.ready = true
		commands = append(commands, fmt.Sprintf("set server %s state ready", s))
	}
	return commands
}

// cut ends the requests to a target at each of its cuts, once.
func (x *proxy) cut(s server, now time.Time) {
	state := x.servers[s]
	for _, at := range x.cloud.Cuts(s.number) {
		if at.After(state.added) && !at.After(now) && !slices.Contains(state.cuts, at) {
			state.cuts = append(state.cuts, at)
			x.tell([]string{fmt.Sprintf("shutdown sessions server %s", s)})
		}
	}
}

// tell carries out commands. HAProxy that is gone is noticed by its clients.
func (x *proxy) tell(commands []string) {
	for batch := range slices.Chunk(commands, 50) {
		if answer, err := x.command(strings.Join(batch, ";")); err != nil || strings.Contains(answer, "Unknown") || strings.Contains(answer, "No such") {
			fmt.Fprintf(os.Stderr, "haproxy: %v: %v: %s\n", batch, err, answer)
		}
	}
}

// purge removes servers that get nothing new. One that still has connections stays.
func (x *proxy) purge() {
	for _, s := range x.sorted() {
		if state := x.servers[s]; !state.ready && state.open == 0 {
			if answer, err := x.command("del server " + s.String()); err == nil && strings.Contains(answer, "deleted") {
				delete(x.servers, s)
			}
		}
	}
}

// busy reports whether a registration has requests under way.
func (x *proxy) busy(number int) bool {
	for s, state := range x.servers {
		if s.number == number && state.open > 0 {
			return true
		}
	}
	return false
}

// sendsTo reports whether HAProxy may send a target new requests.
func (x *proxy) sendsTo(group string, t cloud.Target) bool {
	for _, state := range x.servers {
		if state.ready && state.lease.Group == group && state.lease.Target == t {
			return true
		}
	}
	return false
}

// count reads HAProxy's statistics.
func (x *proxy) count(now time.Time) {
	text, err := x.command("show stat -1 4 -1") // all backends, servers only
	if err != nil {
		return
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# "))).ReadAll()
	if err != nil || len(rows) == 0 {
		return
	}
	name, current, total := slices.Index(rows[0], "svname"), slices.Index(rows[0], "scur"), slices.Index(rows[0], "stot")
	for _, row := range rows[1:] {
		backend, _ := strconv.Atoi(strings.TrimPrefix(row[0], "out"))
		number, _ := strconv.Atoi(strings.TrimPrefix(row[name], "r"))
		state := x.servers[server{backend, number}]
		if state == nil {
			continue
		}
		open, _ := strconv.Atoi(row[current])
		requests, _ := strconv.Atoi(row[total])
		x.truth.counted(state.lease, requests-state.requests, open-state.open, now)
		state.requests, state.open = requests, open
	}
}

// command speaks to HAProxy's runtime API, one connection a command.
func (x *proxy) command(text string) (string, error) {
	conn, err := net.DialTimeout("unix", x.socket, time.Second)
	if err != nil {
		return "", fmt.Errorf("haproxy's runtime API: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return "", fmt.Errorf("haproxy's runtime API: %w", err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("haproxy's runtime API: %w", err)
	}
	return string(answer), nil
}
