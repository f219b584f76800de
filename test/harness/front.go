package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
)

// Where the load balancer's frontends are.
const (
	httpPort = 8080
	tcpPort  = 8081
)

func (s *Harness) http() string { return net.JoinHostPort(s.HostIP(), strconv.Itoa(httpPort)) }
func (s *Harness) tcp() string  { return net.JoinHostPort(s.HostIP(), strconv.Itoa(tcpPort)) }

// Ports are where the load balancer finds the proxy on each node, and what it
// asks for the node's health; on the path /, where Path is empty. At is where it
// forwards connections from; 0 for its two frontends.
type Ports struct {
	Traffic, Check int
	Path           string
	At             int
}

// Front puts a load balancer in front of the nodes: HAProxy, which checks twice a
// second, never retries and never sends a request to another node. It returns
// when every node is up.
func (s *Harness) Front(ctx context.Context, p Ports) (*lb.LB, error) {
	// The path of its socket must be short.
	dir, err := os.MkdirTemp("", "lb-")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(dir) })
	o := lb.Options{
		Dir: dir, CheckInterval: 500 * time.Millisecond, CheckPath: p.Path,
		Listen: map[lb.Mode]string{lb.HTTP: s.http(), lb.TCP: s.tcp()},
	}
	if p.At != 0 {
		o.Listen = map[lb.Mode]string{lb.TCP: net.JoinHostPort(s.HostIP(), strconv.Itoa(p.At))}
	}
	for _, n := range s.Nodes() {
		o.Servers = append(o.Servers, lb.Server{Name: n.Name(), Address: n.IP(), Port: p.Traffic, CheckPort: p.Check})
	}
	front, err := lb.Start(ctx, s.Command, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, n := range s.Nodes() {
		if err := front.WaitUp(ctx, n.Name()); err != nil {
			front.Stop()
			return nil, fmt.Errorf("waiting for the load balancer to find %s up: %w", n.Name(), err)
		}
	}
	return front, nil
}

// keptFor is how long a client of the tcp frontend keeps a connection. A load balancer of that
// mode moves none: this, and the second in which it finds a node down, are a second less than the
// shortest grace, for a machine that stalls.
const keptFor = time.Second

// Request is what is asked for, and how. Its zero value is a POST that names the load balancer.
type Request struct{ Method, Host string }

// Send sends requests at a rate, half of them on kept connections, half through
// each frontend of the load balancer, and of each request as many, where some are named.
func (s *Harness) Send(ctx context.Context, rate float64, requests ...Request) (*traffic.Process, error) {
	client, err := s.Lab(ctx, "traffic")
	if err != nil {
		return nil, err
	}
	o := traffic.Options{Rate: rate, MaxFailures: 10_000}
	for _, r := range requests {
		for _, stream := range s.streams() {
			stream.Name, stream.Method, stream.Host = fmt.Sprintf("%s %s %s", r.Method, r.Host, stream.Name), r.Method, r.Host
			o.Streams = append(o.Streams, stream)
		}
	}
	if len(requests) == 0 {
		o.Streams = s.streams()
	}
	return traffic.StartProcess(client, o)
}

func (s *Harness) streams() []traffic.Stream {
	return []traffic.Stream{
		{Name: "http-kept", Address: s.http(), KeepAlive: true},
		{Name: "http-new", Address: s.http()},
		{Name: "tcp-kept", Address: s.tcp(), KeepAlive: true, Lifetime: keptFor},
		{Name: "tcp-new", Address: s.tcp()},
	}
}
