package lb

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"text/template"
	"time"
)

// Mode is the protocol of a frontend and its backend, and the name of both.
type Mode string

const (
	HTTP Mode = "http" // as an application load balancer: connections to clients and servers are apart, servers' are reused
	TCP  Mode = "tcp"  // as a network load balancer: one connection to a server for each of a client
)

// The kernel's limit for the path of a unix socket, less what HAProxy appends.
const maxSocketPath = 95

// Options say what to balance.
type Options struct {
	Dir     string          // for haproxy.cfg, haproxy.log and admin.sock; made where it is missing
	Listen  map[Mode]string // host:port of each frontend; a mode that is not in it has none
	Servers []Server

	CheckPath     string        // of the health check, default /
	CheckInterval time.Duration // default 1 s
	Fall, Rise    int           // failed checks to be down, passed ones to be up again; default 2 and 2
}

// Server is a member of each backend.
type Server struct {
	Name      string
	Address   string // without port
	Port      int    // for traffic
	CheckPort int    // for health checks; 0 is Port
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("no directory")
	}
	if dir, err := filepath.Abs(o.Dir); err != nil || len(dir)+len("/admin.sock") > maxSocketPath {
		return o, fmt.Errorf("directory %s: its path is too long for a unix socket", o.Dir)
	}
	if len(o.Listen) == 0 {
		return o, errors.New("no address to listen on")
	}
	for mode, address := range o.Listen {
		if mode != HTTP && mode != TCP {
			return o, fmt.Errorf("mode %q: must be %s or %s", mode, HTTP, TCP)
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return o, fmt.Errorf("%s listen address: %w", mode, err)
		}
	}
	for _, s := range o.Servers {
		if s.Name == "" || s.Address == "" || s.Port == 0 {
			return o, fmt.Errorf("server %+v: name, address and port are needed", s)
		}
	}
	o.CheckPath = cmp.Or(o.CheckPath, "/")
	o.CheckInterval = cmp.Or(o.CheckInterval, time.Second)
	o.Fall, o.Rise = cmp.Or(o.Fall, 2), cmp.Or(o.Rise, 2)
	return o, nil
}

// CheckMillis is the check interval as HAProxy wants it.
func (o Options) CheckMillis() int64 { return o.CheckInterval.Milliseconds() }

// HostPort is where the server takes traffic.
func (s Server) HostPort() string { return net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }

//go:embed haproxy.cfg.tmpl
var configText string

var configTemplate = template.Must(template.New("haproxy.cfg").Parse(configText))

// config returns the text of haproxy.cfg.
func (o Options) config(socket string) []byte {
	var b bytes.Buffer
	err := configTemplate.Execute(&b, struct {
		Options
		Socket string
	}{o, socket})
	if err != nil {
		panic(err) // the template is ours and takes any options
	}
	return b.Bytes()
}
