package delta

import (
	"context"
	"crypto/tls"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// told is what other replicas said.
type told struct {
	mu  sync.Mutex
	all map[uint64]string
	// begun are how many streams said anything.
	begun int
}

func (l *told) hear(replica uint64, message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if message == nil {
		delete(l.all, replica)
		return
	}
	if _, known := l.all[replica]; !known {
		l.begun++
	}
	l.all[replica] = string(message)
}

func (l *told) says(want ...string) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, w := range want {
			found := false
			for _, said := range l.all {
				found = found || said == w
			}
			if !found {
				return false
			}
		}
		return len(l.all) == len(want)
	}
}

// TestTell: a controller is told by who has a certificate of a controller, until that one's stream ends, and by
// nobody else.
func TestTell(t *testing.T) {
	ours, forged, misnamed := selfsigned.For(t, ServerName), selfsigned.For(t, ServerName), selfsigned.For(t, "other.example.com")
	l := &told{all: map[uint64]string{}}
	trusted := append(append([]byte{}, misnamed.Chain...), ours.Chain...)
	s := serveWith(t, Options{Identify: ofWeb, Heard: l.hear, Trusted: func() []byte { return trusted }},
		grpc.Creds(Present(func() (*tls.Certificate, error) { return &ours.Certificate, nil })))
	tell := func(secured credentials.TransportCredentials) (send func([]byte) error, ended <-chan error, end context.CancelFunc) {
		t.Helper()
		connection, err := Dial(s.target, grpc.WithTransportCredentials(secured))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		send, ended, err = Tell(ctx, connection)
		if err != nil {
			t.Fatal(err)
		}
		return send, ended, cancel
	}
	introduce := func(own selfsigned.Certificate, authorities []byte) credentials.TransportCredentials {
		return Introduce(func() (*tls.Certificate, error) { return &own.Certificate, nil }, func() []byte { return authorities })
	}
	one, _, end := tell(introduce(ours, ours.Chain))
	two, _, _ := tell(introduce(ours, ours.Chain))
	for _, message := range []string{"a", "b"} {
		if err := one([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	if err := two([]byte("c")); err != nil {
		t.Fatal(err)
	}
	await.True(t, "both are heard", l.says("b", "c"))
	end()
	await.True(t, "one has ended", l.says("c"))
	proxies, err := Trust(ours.Chain)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secured credentials.TransportCredentials
		code    codes.Code
	}{
		"a proxy":                       {proxies, codes.PermissionDenied},
		"another authority":             {introduce(forged, ours.Chain), codes.PermissionDenied},
		"another name":                  {introduce(misnamed, ours.Chain), codes.PermissionDenied},
		"who trusts another controller": {introduce(ours, forged.Chain), codes.Unavailable},
	} {
		connection, err := Dial(s.target, grpc.WithTransportCredentials(test.secured))
		if err != nil {
			t.Fatal(err)
		}
		send, ended, err := Tell(t.Context(), connection)
		if err == nil {
			_ = send([]byte("x"))
			select {
			case err = <-ended:
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: the stream goes on", name)
			}
		}
		if status.Code(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
		connection.Close()
	}
	if l.begun != 2 {
		t.Errorf("%d were heard", l.begun)
	}
}
