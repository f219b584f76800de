package aws

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/forward"
)

// backend is a real server at an address: it answers with that address, after as long
// as the query says.
type backend struct {
	id      string
	server  *http.Server
	healthy atomic.Bool
	served  atomic.Int64
}

func (f *fixture) backend(id string, port int) *backend {
	f.Helper()
	b := &backend{id: id}
	b.healthy.Store(true)
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !b.healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		b.served.Add(1)
		if pause, err := time.ParseDuration(r.FormValue("pause")); err == nil {
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
			}
		}
		io.WriteString(w, id)
	})
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", id, port))
	f.must(err)
	b.server = &http.Server{Handler: mux}
	go b.server.Serve(l)
	f.Cleanup(b.stop)
	return b
}

// stop ends it at once, as a pod that is killed.
func (b *backend) stop() { b.server.Close() }

// site is a balancer with sockets, in front of a group of the two backends one and two.
type site struct {
	*fixture
	port     int // of the balancer
	backends int // port of the backends
	one, two *backend
}

var checks = cloud.HealthCheck{Protocol: "HTTP", Path: "/healthz", IntervalSeconds: 5, TimeoutSeconds: 5, HealthyThreshold: 2}

// Addresses of balancers: each test has its own last part, since tests run side by side.
func address(part, zone int) string { return local(9, part*3+zone) }

// front is a balancer of a kind, with both targets registered and healthy.
func front(t *testing.T, kind cloud.Kind, part int, attributes, balancerAttributes map[string]string) *site {
	t.Helper()
	s := &site{port: 10000 + part, backends: 11000 + part}
	s.fixture = serve(t, func(c *Config) {
		protocol := map[cloud.Kind]string{cloud.Network: "TCP", cloud.Application: "HTTP"}[kind]
		c.TargetGroups = []cloud.TargetGroup{{Name: "pods", Protocol: protocol, Port: s.backends, TargetType: "ip", HealthCheck: checks, Attributes: attributes}}
		c.LoadBalancers = []cloud.LoadBalancer{{
			Name: "front", Type: string(kind), Any: address(part, 0),
			Zones:      []cloud.Zone{{Name: zoneA, Address: address(part, 1)}, {Name: zoneB, Address: address(part, 2)}},
			Listeners:  []cloud.Listener{{Protocol: protocol, Port: s.port, TargetGroup: "pods"}},
			Attributes: balancerAttributes,
		}}
	})
	s.one, s.two = s.backend(pod, s.backends), s.backend(other, s.backends)
	s.must(s.register("pods", pod, other))
	s.awaitState("pods", pod, "healthy")
	s.awaitState("pods", other, "healthy")
	// HAProxy is told a moment after the API says it.
	s.await("both are reached", func() bool { c := s.visited(s.at(part, 0), 20); return c[pod] > 0 && c[other] > 0 })
	return s
}

func (s *site) at(part, zone int) string { return fmt.Sprintf("%s:%d", address(part, zone), s.port) }

// visit opens a connection, asks who is there and closes it.
func visit(ctx context.Context, address string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	return ask(ctx, &http.Client{Transport: transport}, address, "")
}

func ask(ctx context.Context, client *http.Client, address, query string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/"+query, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// talk is a connection that stays open, over which one asks again and again.
type talk struct {
	net.Conn
	reader *bufio.Reader
}

func (f *fixture) talk(address string) *talk {
	f.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	f.must(err)
	f.Cleanup(func() { conn.Close() })
	return &talk{conn, bufio.NewReader(conn)}
}

// ask is the body of an answer.
func (t *talk) ask(query string) (string, error) {
	t.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(t, "POST /%s HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", query); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(t.reader, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// to opens connections until one leads to a backend.
func (f *fixture) to(address, id string) *talk {
	f.Helper()
	for range 200 {
		t := f.talk(address)
		if got, err := t.ask(""); err == nil && got == id {
			return t
		}
		t.Close()
	}
	f.Fatalf("no connection to %s leads to %s", address, id)
	return nil
}

// reset waits until the connection is reset.
func (f *fixture) reset(t *talk) {
	f.Helper()
	t.SetDeadline(time.Now().Add(patience))
	if _, err := t.reader.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		f.Errorf("the connection was to be reset: %v", err)
	}
}

// traffic is the truth about a target.
func (f *fixture) traffic(id string) forward.Traffic {
	f.Helper()
	truth, err := f.admin.Truth(f.Context())
	f.must(err)
	for _, t := range truth.Targets {
		if t.Target.ID == id {
			return t
		}
	}
	return forward.Traffic{}
}

// visited are the backends that some connections lead to.
func (f *fixture) visited(address string, n int) map[string]int {
	counts := map[string]int{}
	for range n {
		id, err := visit(f.Context(), address)
		if err != nil {
			id = "failed"
		}
		counts[id]++
	}
	return counts
}
