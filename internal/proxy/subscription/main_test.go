package subscription

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for how long a test waits for what is to come.
const patience = 30 * time.Second

var web = types.NamespacedName{Namespace: "ingress", Name: "web"}

// replica is a controller on loopback.
type replica struct {
	*delta.Server
	target string
	stop   func()
	// reports are of its streams, lifetime is that of the first of them, 0 for ever.
	reports  chan delta.Report
	lifetime atomic.Int64
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{target: l.Addr().String(), reports: make(chan delta.Report, 100)}
	r.Server = delta.NewServer(delta.Options{
		Identify: func(context.Context) (delta.Peer, error) {
			peer := delta.Peer{IngressDaemonSet: web, Pod: "web-0"}
			if first := r.lifetime.Swap(0); first > 0 {
				peer.Until = time.Now().Add(time.Duration(first))
			}
			return peer, nil
		},
		Report: func(said delta.Report) { r.reports <- said },
	})
	g := r.GRPC()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Serve(l)
	}()
	r.stop = sync.OnceFunc(func() {
		g.Stop()
		<-done
	})
	t.Cleanup(r.stop)
	return r
}

// acknowledged waits until all up to a position is.
func (r *replica) acknowledged(t *testing.T, position uint64) delta.Report {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case said := <-r.reports:
			if said.Position >= position && !said.Ended {
				return said
			}
		case <-late:
			t.Fatalf("position %d is not acknowledged", position)
		}
	}
}

// proxy has a subscription, which reaches one controller at a time, and a table.
type proxy struct {
	*Subscription
	logged *lines

	mu     sync.Mutex
	target string
	table  *table.Table
	// applied is what was applied, a line each.
	applied []string
}

func newProxy(directory string) *proxy {
	p := &proxy{logged: &lines{}, table: &table.Table{}}
	p.Subscription = New(Options{
		Node: "web-0", Directory: directory, Apply: p.apply, Log: slog.New(slog.NewTextHandler(p.logged, nil)),
		Connect: func() (*grpc.ClientConn, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return delta.Dial(p.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
	})
	return p
}

func (p *proxy) apply(c table.Changes) table.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	result := p.table.Apply(c)
	p.table = result.Table
	p.applied = append(p.applied, said(c))
	return result
}

// goTo has the next stream opened to another controller.
func (p *proxy) goTo(r *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = r.target
}

// has is what was applied since it was asked last.
func (p *proxy) has() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	applied := p.applied
	p.applied = nil
	return applied
}

// run runs until the test ends or stop is called.
func (p *proxy) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// said are changes in short.
func said(c table.Changes) string {
	var out []string
	for _, r := range c.Set {
		out = append(out, r.Name+"="+r.Backend.Protocol)
	}
	for _, name := range c.Removed {
		out = append(out, "-"+name)
	}
	return strings.Join(out, " ")
}

func backend(name, protocol string) wire.Resource {
	return wire.Resource{Name: name, Backend: &wire.Backend{Port: 80, Protocol: protocol}}
}

// lines are those of a log.
type lines struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written.Write(b)
}

// with are the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.written.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
