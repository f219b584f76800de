package console

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when pages are looked at.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// proxy is one as a file of testdata describes it.
type proxy struct {
	Pod       string
	State     State
	Resources []wire.Resource
	// Certificates are made for these names, and are valid from and until then.
	Certificates []struct {
		Name        string
		For         []string
		From, Until time.Time
	}
	// Standing is how endpoints stand that are not as the table says alone, by their address.
	Standing map[string]struct {
		Out        time.Time
		Failed     string
		Open, Idle int
	}
	// Queries are what is asked for.
	Queries []string
}

func readProxy(t testing.TB, file string) *proxy {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// console shows the proxy, and finds no other one.
func (p *proxy) console(t testing.TB) *Console {
	t.Helper()
	set := p.Resources
	for _, c := range p.Certificates {
		set = append(set, wire.Resource{Name: c.Name, Certificate: signed(t, c.For, c.From, c.Until)})
	}
	made := (&table.Table{}).Apply(table.Changes{Set: set})
	for _, r := range made.Refused {
		t.Fatalf("%s is refused: %v", r.Name, r.Err)
	}
	c := New(Options{
		Pod: p.Pod, Version: "v1", Began: noon.Add(-time.Hour), Table: func() *table.Table { return made.Table }, State: func() State { return p.State },
		Endpoints: func(backend string, most int) (out []Endpoint, all int) {
			_, endpoints, _ := made.Table.Backend(backend)
			for _, e := range endpoints[:min(len(endpoints), most)] {
				s := p.Standing[e.Address]
				out = append(out, Endpoint{Endpoint: e, Out: s.Out, Failed: s.Failed, Open: s.Open, Idle: s.Idle})
			}
			return out, len(endpoints)
		},
	})
	c.peers.Own, c.peers.Table = "web-0~0123456789abcdef", os.DevNull
	c.now = func() time.Time { return noon }
	return c
}

// signed is a certificate that signs itself, with its key.
func signed(t testing.TB, names []string, from, until time.Time) *wire.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: from, NotAfter: until}
	chain, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Certificate{Chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// served is the address at which it answers people.
func (c *Console) served(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error { return c.Serve(ctx, l) })
	return "http://" + l.Addr().String()
}

// run runs until the test ends.
func run(t testing.TB, serve func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// shown is what a request is answered, without a network.
func (c *Console) shown(query string) Everything {
	return c.everything(httptest.NewRequest(http.MethodGet, "/"+query, nil))
}

// html is the page.
func (c *Console) html(t testing.TB, e Everything) string {
	t.Helper()
	var b bounded
	if err := c.page(e)(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// got is a response in short, and its body.
func got(t testing.TB, method, url string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range change {
		do(r)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// many are hosts by the number, each with a rule.
func many(n int) *proxy {
	p := &proxy{Pod: "web-0"}
	p.Resources = []wire.Resource{{Name: "web", Listener: &wire.Listener{Port: 80}}}
	for i := range n {
		name := fmt.Sprintf("shop/s%05d:80", i)
		p.Resources = append(p.Resources,
			wire.Resource{Name: name, Endpoints: &wire.Endpoints{All: []wire.Endpoint{{Address: "10.1.0.1", Port: 80}}}},
			wire.Resource{Name: name, Backend: &wire.Backend{Port: 80}},
			wire.Resource{Name: name, Route: &wire.Route{Object: wire.Object{Kind: "Ingress", Namespace: "shop", Name: fmt.Sprint("i", i)}, Listeners: []string{"web"},
				Hostnames: []string{fmt.Sprintf("h%05d.example.com", i)}, Backends: []wire.Share{{Backend: name, Weight: 1}}}})
	}
	return p
}

// hostile are texts that would be more than text where they are not escaped.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</textarea></title></main><script>`, "{{.}}", "javascript:alert(1)",
	"\x1b[2J\x00\u202e", strings.Repeat("<b>", 10_000),
}
