// Package peers holds the proxy against clients and scanners that nobody here wrote: h2spec, testssl.sh, h2load, wrk
// and curl. They and the proxy are on loopback.
package peers

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

// name is that of the host which is asked for, and which the certificate is for.
const name = "localhost"

// hello answers every request after its body has been read.
func hello(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "hello\n")
}

// served are the ports of a server: without TLS and with it.
type served struct{ plain, encrypted uint16 }

func (s served) withoutTLS() string { return fmt.Sprintf("http://%s:%d/", name, s.plain) }
func (s served) overTLS() string    { return fmt.Sprintf("https://%s:%d/", name, s.encrypted) }

// sized is a file of so many bytes.
func sized(t *testing.T, bytes int) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// proxied is the proxy as it comes, with one endpoint, until the test ends. It is only more patient with connections to
// that: on a machine that is busy with other tests a thousand of them at once may take longer than a second.
func proxied(t *testing.T) served {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(hello))
	t.Cleanup(backend.Close)
	at := netip.MustParseAddrPort(backend.Listener.Addr().String())
	plain, encrypted := loopback.Held(t), loopback.Held(t)
	plain.Free(t)
	encrypted.Free(t)
	certificate := selfsigned.For(t, name)

	o := proxy.Defaults()
	o.Upstream.Connect = patience
	s := proxy.NewServer(o)
	t.Cleanup(s.Close)
	result, unavailable := s.Apply(table.Changes{Set: []wire.Resource{
		{Name: "certificate", Certificate: &wire.Certificate{Chain: certificate.Chain, Key: certificate.Key}},
		{Name: "hello", Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: at.Addr().String(), Port: at.Port(), UID: "hello"}}}},
		{Name: "hello", Backend: &wire.Backend{Port: 80, MaxFails: 1, FailTimeout: 10_000}},
		{Name: "plain", Listener: &wire.Listener{Address: "127.0.0.1", Port: plain.Number}},
		{Name: "encrypted", Listener: &wire.Listener{Address: "127.0.0.1", Port: encrypted.Number, TLS: true, Certificates: []string{"certificate"}}},
		{Name: "all", Route: &wire.Route{Listeners: []string{"plain", "encrypted"}, Backends: []wire.Share{{Backend: "hello", Weight: 1}}}},
	}})
	if len(result.Refused)+len(unavailable) > 0 {
		t.Fatalf("refused: %v, unavailable: %v", result.Refused, unavailable)
	}
	return served{plain.Number, encrypted.Number}
}

// bare is net/http's server, which speaks the same protocols and has nothing behind it, until the test ends.
func bare(t *testing.T) served {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler: http.HandlerFunc(hello), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{selfsigned.For(t, name).Certificate}},
	}
	plain, encrypted := listen(t), listen(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(plain) })
	serving.Go(func() { _ = s.ServeTLS(encrypted, "", "") })
	t.Cleanup(func() {
		_ = s.Close()
		serving.Wait()
	})
	return served{portOf(plain), portOf(encrypted)}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func portOf(l net.Listener) uint16 { return netip.MustParseAddrPort(l.Addr().String()).Port() }
