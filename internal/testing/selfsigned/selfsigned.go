// Package selfsigned makes certificates for tests, each of which signs itself.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Certificate is one with its key. Chain and Key are the same as PEM; the chain is that of its authority, too.
type Certificate struct {
	tls.Certificate
	Chain, Key []byte
}

// For is a new one for some names or addresses, which stands for an hour.
func For(t testing.TB, names ...string) Certificate {
	t.Helper()
	return Until(t, time.Now().Add(time.Hour), names...)
}

// Until is one that stands until then, for two days.
func Until(t testing.TB, end time.Time, names ...string) Certificate {
	t.Helper()
	c, err := Make(end, names...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Make is Until where no test runs.
func Make(end time.Time, names ...string) (Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		NotBefore: end.Add(-48 * time.Hour), NotAfter: end,
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Certificate{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		Chain:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}
