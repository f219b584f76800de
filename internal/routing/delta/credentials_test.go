package delta

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestTokenGoesToControllersOnly: a proxy shows its token to who has the certificate of a controller, the
// present one of the file, and to nobody else.
func TestTokenGoesToControllersOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	ours, forged, other := selfsigned.For(t, ServerName), selfsigned.For(t, ServerName), selfsigned.For(t, ServerName)
	misnamed := selfsigned.For(t, "other.example.com")
	for _, test := range []struct {
		name        string
		certificate selfsigned.Certificate
		authorities []byte
		token       string
		want        string
	}{
		{"controller", ours, ours.Chain, "one\n", "one"},
		{"controller, with another token", ours, ours.Chain, "two", "two"},
		{"controller, of the old authority of two", ours, append(append([]byte{}, other.Chain...), ours.Chain...), "one", "one"},
		{"another with its name", forged, ours.Chain, "one", ""},
		{"another name", misnamed, misnamed.Chain, "one", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(test.token), 0o600); err != nil {
				t.Fatal(err)
			}
			shown := make(chan string, 10)
			s := serve(t, func(ctx context.Context) (Peer, error) {
				shown <- TokenOf(ctx)
				return web0, nil
			}, grpc.Creds(Present(func() (*tls.Certificate, error) { return &test.certificate.Certificate, nil })))
			s.Commit(web, nil, nil)
			trust, err := Trust(test.authorities)
			if err != nil {
				t.Fatal(err)
			}
			connection, err := Dial(s.target, grpc.WithTransportCredentials(trust), grpc.WithPerRPCCredentials(Token(path)))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			_, err = Open(t.Context(), connection)
			if test.want == "" {
				if status.Code(err) != codes.Unavailable || len(shown) > 0 {
					t.Errorf("the stream is opened with %v, and %d tokens are shown", err, len(shown))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := <-shown; got != test.want {
				t.Errorf("shown is %q, want %q", got, test.want)
			}
		})
	}
}

// TestVersionsOfTLS: neither a controller, nor a proxy, nor a controller that asks another, speaks any but TLS 1.3.
func TestVersionsOfTLS(t *testing.T) {
	certificate := selfsigned.For(t, ServerName)
	ours := func() (*tls.Certificate, error) { return &certificate.Certificate, nil }
	trust, err := Trust(certificate.Chain)
	if err != nil {
		t.Fatal(err)
	}
	old := &tls.Config{
		MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, RootCAs: x509.NewCertPool(), ServerName: ServerName,
		Certificates: []tls.Certificate{certificate.Certificate},
	}
	old.RootCAs.AppendCertsFromPEM(certificate.Chain)
	for name, ends := range map[string]struct {
		client, server credentials.TransportCredentials
	}{
		"a controller":                   {credentials.NewTLS(old), Present(ours)},
		"a proxy":                        {trust, credentials.NewTLS(old)},
		"a controller that asks another": {Introduce(ours, func() []byte { return certificate.Chain }), credentials.NewTLS(old)},
	} {
		client, server := net.Pipe()
		failed := make(chan error, 1)
		go func() {
			_, _, err := ends.server.ServerHandshake(server)
			server.Close()
			failed <- err
		}()
		_, _, err := ends.client.ClientHandshake(t.Context(), ServerName, client)
		client.Close()
		if there := <-failed; err == nil || there == nil || !strings.Contains(err.Error()+there.Error(), "version") {
			t.Errorf("%s: %v, %v", name, err, there)
		}
	}
}

// TestNoToken: without TLS no token is sent, nor is one where there is no file.
func TestNoToken(t *testing.T) {
	s := serve(t, ofWeb)
	if c, err := Dial(s.target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(Token("/no/file"))); err == nil {
		c.Close()
		t.Error("a token would be sent without TLS")
	}
	if _, err := Token(filepath.Join(t.TempDir(), "none")).GetRequestMetadata(t.Context()); err == nil {
		t.Error("there is no token, and no error")
	}
	if _, err := Trust([]byte("no PEM")); err == nil {
		t.Error("nobody is trusted, and there is no error")
	}
	if got := TokenOf(t.Context()); got != "" {
		t.Errorf("a token %q is found where there is none", got)
	}
}

// TestLifetime: a stream says how long its credentials hold, whose the proxy is, and ends with them, or when its pod is gone.
func TestLifetime(t *testing.T) {
	expired := serve(t, func(context.Context) (Peer, error) {
		p := web0
		p.Until = time.Now().Add(-time.Second)
		return p, nil
	})
	expired.Commit(web, nil, nil)
	c, err := Open(t.Context(), expired.dial(t))
	if err == nil {
		_, err = c.Receive()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stream whose token has expired ends with %v", err)
	}
	s := serve(t, func(context.Context) (Peer, error) {
		p := web0
		p.Until = time.Now().Add(time.Hour)
		return p, nil
	})
	s.Commit(web, nil, nil)
	c, _ = s.subscribe(t, nil)
	if c.IngressDaemonSet != web.String() {
		t.Errorf("a proxy is said to be of %q", c.IngressDaemonSet)
	}
	if c.Lifetime > time.Hour || c.Lifetime < 50*time.Minute {
		t.Errorf("the token holds for an hour, and %v is said", c.Lifetime)
	}
	answer(t, c, hear(t, c, ""))
	s.End(func(p Peer) bool { return p.UID == "other" })
	s.Commit(web, []wire.Resource{backend("a", 1)}, nil)
	answer(t, c, hear(t, c, "a=1"))
	s.End(func(p Peer) bool { return p.UID == web0.UID })
	if _, err := c.Receive(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the stream of a pod that is gone ends with %v", err)
	}
	forEver := serve(t, ofWeb)
	forEver.Commit(web, nil, nil)
	without, _ := forEver.subscribe(t, nil)
	if without.Lifetime != 0 {
		t.Errorf("a stream without an end says %v", without.Lifetime)
	}
}
