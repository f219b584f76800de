package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// teller is a controller as proxies see one, without a cluster: it tells each, which it knows by its token, what
// it is given for it.
type teller struct {
	server    *delta.Server
	grpc      *grpc.Server
	address   string
	authority []byte

	mu sync.Mutex
	// taken is what proxies said last, and changed is closed when one says more.
	taken   map[string]delta.Report
	changed chan struct{}
}

func startTeller() (*teller, error) {
	certificate, err := selfsigned.Make(time.Now().Add(24*time.Hour), delta.ServerName)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &teller{address: l.Addr().String(), authority: certificate.Chain, taken: map[string]delta.Report{}, changed: make(chan struct{})}
	t.server = delta.NewServer(delta.Options{Identify: identify, Report: t.hear})
	t.grpc = t.server.GRPC(grpc.Creds(delta.Present(func() (*tls.Certificate, error) { return &certificate.Certificate, nil })))
	go t.grpc.Serve(l)
	return t, nil
}

func (t *teller) close() { t.grpc.Stop() }

// identify takes a proxy's token for its name.
func identify(ctx context.Context) (delta.Peer, error) {
	name := delta.TokenOf(ctx)
	return delta.Peer{IngressDaemonSet: setOf(name), Pod: name, UID: types.UID(name)}, nil
}

func setOf(proxy string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: proxy}
}

func (t *teller) hear(r delta.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[r.Pod] = r
	close(t.changed)
	t.changed = make(chan struct{})
}

// writeController writes into a folder where a proxy finds a controller, and its token.
func writeController(dir string, authorities []byte, address, token string) error {
	for name, content := range map[string][]byte{"ca.crt": authorities, "address": []byte(address), "token": []byte(token)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tell returns when the proxy has taken all.
func (t *teller) tell(ctx context.Context, proxy string, set []wire.Resource, removed ...string) error {
	position, withheld := t.server.Commit(setOf(proxy), set, removed)
	if len(withheld) > 0 {
		return fmt.Errorf("%d resources cannot be told, the first is %v", len(withheld), withheld[0])
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		t.mu.Lock()
		said, changed := t.taken[proxy], t.changed
		t.mu.Unlock()
		switch {
		case len(said.Refused) > 0:
			return fmt.Errorf("%s refuses %v", proxy, said.Refused[0])
		case said.Position >= position && !said.Ended:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s does not take what it is told: %w", proxy, context.Cause(ctx))
		}
	}
}
