package stream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// heavy is a backend of a namespace of about so many bytes.
func heavy(namespace string, i, bytes int) wire.Resource {
	return wire.Resource{Name: fmt.Sprintf("%s/s%d:80", namespace, i), Backend: &wire.Backend{Port: 80, Cookie: strings.Repeat("a", bytes)}}
}

// fill commits resources of a namespace until one is refused, and says how many were taken.
func fill(l *Log, namespace string, bytes int) (taken int) {
	for ; taken < 10_000; taken++ {
		if _, refused := l.Commit([]wire.Resource{heavy(namespace, taken, bytes)}, nil); len(refused) > 0 {
			break
		}
	}
	return taken
}

// TestShares: a namespace that takes all that it may leaves room for the next one, however many there are, and one
// that holds little is not refused what it needs.
func TestShares(t *testing.T) {
	l := New()
	l.limit = 1_000_000
	fill(l, "a", 1000)
	if got := l.shares["a"]; got < 490_000 || got > 500_000 {
		t.Errorf("alone it has %d", got)
	}
	for i := range 4 {
		fill(l, fmt.Sprint("b", i), 1000)
	}
	if free := l.limit - l.held; free < 30_000 {
		t.Errorf("five namespaces leave %d", free)
	}
	if got := fill(l, "small", 100); got < 30 {
		t.Errorf("one that has little may have %d resources more", got)
	}
	// What there is may change, and the listeners of all are told whatever namespaces took.
	same := heavy("a", 0, 1000)
	same.Backend.Port = 81
	listener := wire.Resource{Name: "https", Listener: &wire.Listener{
		Object: wire.Object{Kind: "IngressDaemonSet", Namespace: "a", Name: "web"}, Certificates: []string{strings.Repeat("a", 200)}}}
	if _, refused := l.Commit([]wire.Resource{same, listener}, nil); len(refused) > 0 {
		t.Errorf("refused is %v", refused)
	}
	if _, refused := l.Commit([]wire.Resource{heavy("a", 0, 2000)}, nil); len(refused) != 1 || !strings.Contains(refused[0].Reason, "namespace a would have") {
		t.Errorf("refused is %v", refused)
	}
	var gone []string
	for name := range l.entries {
		gone = append(gone, name)
	}
	if l.Commit(nil, gone); l.held != 0 || len(l.shares) != 0 {
		t.Errorf("nothing is left, and held are %d bytes, of %v", l.held, l.shares)
	}
}

// TestByNeed: where there is not room for all, certificates are left out, and routes before listeners.
func TestByNeed(t *testing.T) {
	object := wire.Object{Kind: "Ingress", Namespace: "shop", Name: "web"}
	all := []wire.Resource{
		{Name: "shop/a", Certificate: &wire.Certificate{Chain: make([]byte, 20_000)}},
		{Name: "shop/cheese:80", Endpoints: &wire.Endpoints{}},
		{Name: "shop/cheese:80", Backend: &wire.Backend{Port: 80}},
		{Name: "http", Listener: &wire.Listener{Object: wire.Object{Kind: "IngressDaemonSet"}, Port: 80}},
		{Name: "Ingress/shop/web/0", Route: &wire.Route{Object: object, Hostnames: []string{strings.Repeat("a", 200)}}},
	}
	before := slices.Clone(all)
	var names []string
	for _, r := range byNeed(all) {
		names = append(names, wire.NameOf(r))
	}
	want := []string{"listener/http", "endpoints/shop/cheese:80", "backend/shop/cheese:80", "route/Ingress/shop/web/0", "certificate/shop/a"}
	if !slices.Equal(names, want) {
		t.Errorf("the order is %v", names)
	}
	for i := range all {
		if wire.NameOf(all[i]) != wire.NameOf(before[i]) {
			t.Fatal("what was given is in another order afterwards")
		}
	}
	l := New()
	l.limit = 10_000
	if _, refused := l.Commit(all, nil); len(refused) != 1 || refused[0].Name != "certificate/shop/a" {
		t.Errorf("refused is %v, with %d bytes held", refused, l.held)
	}
}

// TestTenThousandCertificates says how many certificates there is room for, with the certificate of an issuer in each
// chain, as public authorities have them, and how long the names are by which a listener names them.
func TestTenThousandCertificates(t *testing.T) {
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		certificate wire.Certificate
		all         bool
	}{
		"ECDSA P-256": {chained(t, elliptical, elliptical.Public()), true},
		"RSA 2048":    {chained(t, large, large.Public()), false},
	} {
		l, told := New(), 0
		var listener wire.Listener
		for i := range 10_000 {
			r := wire.Resource{Name: fmt.Sprintf("team-%d/certificate-of-shop-%d", i%100, i), Certificate: &test.certificate}
			listener.Certificates = append(listener.Certificates, r.Name)
			if _, refused := l.Commit([]wire.Resource{r}, nil); len(refused) == 0 {
				told++
			}
		}
		size := len(test.certificate.Chain) + len(test.certificate.Key)
		t.Logf("%s: %d bytes each, %d of 10,000 are told, in %d of %d bytes", name, size, told, l.held, l.limit)
		if test.all != (told == 10_000) || told < 7000 {
			t.Errorf("%s: %d are told", name, told)
		}
		listener.Object.Kind = "IngressDaemonSet"
		if _, refused := l.Commit([]wire.Resource{{Name: "https", Listener: &listener}}, nil); len(refused) > 0 {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// chained is a certificate with what a public authority writes into one, that of its issuer, and a key.
func chained(t *testing.T, key, public any) wire.Certificate {
	t.Helper()
	var chain []byte
	for _, subject := range []string{"shop.example.com", "an authority of that size"} {
		template := &x509.Certificate{
			SerialNumber: new(big.Int).Lsh(big.NewInt(1), 140), Subject: pkix.Name{CommonName: subject}, Issuer: pkix.Name{Organization: []string{"An Authority"}},
			DNSNames: []string{subject, "www." + subject}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
			SubjectKeyId: make([]byte, 20), AuthorityKeyId: make([]byte, 20), OCSPServer: []string{"http://ocsp.example.com"}, IssuingCertificateURL: []string{"http://issuer.example.com/ca.crt"},
			// Two timestamps of logs have about 240 bytes.
			ExtraExtensions: []pkix.Extension{{Id: []int{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: make([]byte, 245)}},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Certificate{Chain: chain, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}
}
