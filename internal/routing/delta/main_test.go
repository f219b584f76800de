package delta

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// web is the IngressDaemonSet of most streams.
var web = types.NamespacedName{Namespace: "ingress", Name: "web"}

// patience is for how long a test waits for what is to come.
const patience = 30 * time.Second

// served is a Server on loopback whose streams are of pods of web, and what it reports.
type served struct {
	*Server
	target  string
	reports chan Report
}

func serve(t *testing.T, identify func(context.Context) (Peer, error), options ...grpc.ServerOption) *served {
	t.Helper()
	return serveWith(t, Options{Identify: identify}, options...)
}

// serveWith also says what is heard of other controllers.
func serveWith(t *testing.T, o Options, options ...grpc.ServerOption) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan Report, 100)
	o.Report = func(r Report) { reports <- r }
	s := NewServer(o)
	g := s.GRPC(options...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Serve(s.Bound(l))
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return &served{s, l.Addr().String(), reports}
}

var web0 = Peer{IngressDaemonSet: web, Pod: "web-0", UID: "web-0-uid"}

func ofWeb(context.Context) (Peer, error) { return web0, nil }

// dial is a connection that ends with the test.
func (s *served) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := Dial(s.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// subscribe is a stream of a proxy that has these versions. Cancel ends it.
func (s *served) subscribe(t *testing.T, versions map[string]string) (c *Client, cancel func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c, err := Open(ctx, s.dial(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(wire.Request{Node: "web-0", TypeURL: wire.TypeURL, Versions: versions}); err != nil {
		t.Fatal(err)
	}
	return c, cancel
}

// hear sees what comes next, and gives it.
func hear(t *testing.T, c *Client, want string) wire.Response {
	t.Helper()
	r, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if got := said(r); got != want {
		t.Fatalf("told is %q, want %q", got, want)
	}
	return r
}

// said is a response in short: what is set, what is removed.
func said(r wire.Response) string {
	var out []string
	for _, d := range r.Resources {
		if resource, err := wire.Decode(d.Value); err == nil && resource.Backend != nil {
			out = append(out, fmt.Sprint(resource.Name, "=", resource.Backend.Port))
		} else {
			out = append(out, d.Name)
		}
	}
	for _, name := range r.Removed {
		out = append(out, "-"+name)
	}
	return strings.Join(out, " ")
}

func answer(t *testing.T, c *Client, r wire.Response, refused ...wire.Refusal) {
	t.Helper()
	if err := c.Send(wire.Request{TypeURL: wire.TypeURL, Nonce: r.Nonce, Error: wire.Refused(refused)}); err != nil {
		t.Fatal(err)
	}
}

// report is the next that is said of a stream.
func (s *served) report(t *testing.T) Report {
	t.Helper()
	select {
	case r := <-s.reports:
		return r
	case <-time.After(patience):
		t.Fatal("nothing is reported")
		return Report{}
	}
}

func backend(name string, port uint16) wire.Resource {
	return wire.Resource{Name: name, Backend: &wire.Backend{Port: port}}
}

// withHeader opens streams with that as their token.
func withHeader(t *testing.T, token string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", bearer+token)
}
