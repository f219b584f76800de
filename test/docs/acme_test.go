package docs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// traefikPage has commands that take certificates out of Traefik's store.
const traefikPage = "docs/guides/migrate-traefik.md"

// stored is a certificate in that store, as Traefik 3 writes it.
type stored struct {
	Domain struct {
		Main string   `json:"main"`
		Sans []string `json:"sans,omitempty"`
	} `json:"domain"`
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
	Store       string `json:"Store"`
}

// TestACMEStore runs the page's commands on a store with certificates of two domains and two resolvers: what
// comes of it is the pair of the domain that the page names, as kubectl takes it.
func TestACMEStore(t *testing.T) {
	dir := t.TempDir()
	type resolver struct{ Certificates []stored }
	store, err := json.Marshal(map[string]resolver{
		"letsencrypt": {[]stored{issued(t, "other.example.com"), issued(t, "www.example.com")}},
		"staging":     {[]stored{issued(t, "www.example.com")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "acme.json"), store, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range PlayedCommands(traefikPage, read(t, traefikPage)) {
		if instead, found := Instead[line]; found {
			line = instead.Run
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: for root, make prepare installs jq\n%s", line, err, out)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname("www.example.com"); err != nil {
		t.Error(err)
	}
}

// issued is a certificate of a domain that signs itself.
func issued(t *testing.T, domain string) (s stored) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{domain}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s.Domain.Main, s.Domain.Sans, s.Store = domain, []string{"also." + domain}, "default"
	s.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	s.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return s
}
