package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"google.golang.org/grpc"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election says who leads elsewhere.
type election struct {
	mu      sync.Mutex
	address string
	err     error
}

func (e *election) set(address string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.address, e.err = address, err
}

func (e *election) leaderElsewhere(context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.address, e.err
}

// listening is a leader that hears.
type listening struct {
	mu   sync.Mutex
	said string
	at   string
}

func (l *listening) hear(_ uint64, message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = string(message)
}

func (l *listening) says(want string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.said == want
	}
}

func newListening(t *testing.T, own selfsigned.Certificate) *listening {
	t.Helper()
	l := &listening{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.at = listener.Addr().String()
	server := delta.NewServer(delta.Options{Heard: l.hear, Trusted: func() []byte { return own.Chain }})
	g := server.GRPC(grpc.Creds(delta.Present(func() (*tls.Certificate, error) { return &own.Certificate, nil })))
	done := make(chan error, 1)
	go func() { done <- g.Serve(server.Bound(listener)) }()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return l
}

// TestTelling: while another replica leads it is told how far proxies are, and again when that changes, and no other
// is; a leader that cannot be asked for stays the one that was.
func TestTelling(t *testing.T) {
	own := selfsigned.For(t, delta.ServerName)
	one, two := newListening(t, own), newListening(t, own)
	e := &election{}
	var mu sync.Mutex
	progress := "a"
	told := &telling{
		leader:  e,
		secured: delta.Introduce(func() (*tls.Certificate, error) { return &own.Certificate, nil }, func() []byte { return own.Chain }),
		progress: func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return []byte(progress), nil
		},
		pause: 10 * time.Millisecond,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- told.Start(ctx) }()
	e.set(one.at, nil)
	await.True(t, "the leader is told", one.says("a"))
	mu.Lock()
	progress = "b"
	mu.Unlock()
	await.True(t, "the leader is told again", one.says("b"))
	e.set("", errors.New("away"))
	mu.Lock()
	progress = "c"
	mu.Unlock()
	await.True(t, "the leader is told while nobody says who leads", one.says("c"))
	e.set(two.at, nil)
	await.True(t, "the next leader is told, and the one before is not", func() bool { return two.says("c")() && one.says("")() })
	e.set("", nil)
	await.True(t, "nobody is told by who leads itself", two.says(""))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLeaderElsewhere: the name under which a replica leads has its address, where that is known.
func TestLeaderElsewhere(t *testing.T) {
	for holder, want := range map[string]string{
		"other_1_2_at_10.0.0.1:8445": "10.0.0.1:8445", "other_1_2_at_[2001:db8::1]:8445": "[2001:db8::1]:8445",
		"other_1_2": "", "own": "", "": "",
	} {
		// What the election itself reads is not to be read by anybody else.
		l := &lease{Interface: &kept{identity: "own"}, asking: &kept{holder: holder}}
		if got, err := l.leaderElsewhere(t.Context()); err != nil || got != want {
			t.Errorf("%q leads at %q, %v", holder, got, err)
		}
	}
	o := proxies{enabled: true, address: ":8445"}
	for server, want := range map[string]string{
		"https://127.0.0.1:6443": "127.0.0.1:8445", "https://127.0.0.1": "127.0.0.1:8445", "%": "",
	} {
		if got := o.reachedAt(server); got != want {
			t.Errorf("who reaches %q is reached at %q", server, got)
		}
	}
	if o.enabled = false; o.reachedAt("https://127.0.0.1:6443") != "" {
		t.Error("without proxies there is an address")
	}
}

// kept is a lock that somebody holds.
type kept struct {
	resourcelock.Interface
	identity, holder string
}

func (k *kept) Identity() string { return k.identity }

func (k *kept) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if k.identity != "" {
		return nil, nil, errors.New("the election's lock is read")
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: k.holder}, nil, nil
}
