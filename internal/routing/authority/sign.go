package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Random is an io.Reader of random bytes. Go takes keys and signatures from its own (crypto/ecdsa).
type Random interface{ Read([]byte) (int, error) }

// Authority is who signs, and whom proxies trust.
type Authority struct {
	Certificate *x509.Certificate
	// key is nil where it does not sign any more.
	key *ecdsa.PrivateKey
}

// id is what tells authorities apart.
func (a *Authority) id() string {
	sum := sha256.Sum256(a.Certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// is reports whether both are the same authority.
func (a *Authority) is(b *Authority) bool { return a.Certificate.Equal(b.Certificate) }

func (a *Authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate.Raw})
}

// until is the authority, nil where there is none or it has ended.
func (a *Authority) until(now time.Time) *Authority {
	if a == nil || !now.Before(a.Certificate.NotAfter) {
		return nil
	}
	return a
}

// makeAuthority makes one that signs for a name and no other.
func makeAuthority(random Random, name string, now time.Time) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authority of " + name},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomains: []string{name}, PermittedDNSDomainsCritical: true,
	}
	key, certificate, err := sign(random, template, nil)
	if err != nil {
		return nil, fmt.Errorf("making an authority: %w", err)
	}
	return &Authority{certificate, key}, nil
}

// Certificate is what a controller presents.
type Certificate struct {
	tls.Certificate
	// RenewAt is when half of its life is over.
	RenewAt time.Time
	signer  *Authority
}

// Sign signs a certificate for a name, with a new key.
func (a *Authority) Sign(random Random, name string, now time.Time) (*Certificate, error) {
	end := now.Add(certificateLife)
	if last := a.Certificate.NotAfter; last.Before(end) {
		end = last
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-backdated), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, certificate, err := sign(random, template, a)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return &Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate},
		RenewAt:     now.Add(end.Sub(now) / 2), signer: a,
	}, nil
}

// Stands reports whether the certificate is to be presented on: it is of who signs now, and half of its life
// is left. Where nobody may sign, what there is stands.
func (c *Certificate) Stands(signer *Authority, now time.Time) bool {
	return c != nil && (signer == nil || c.signer.is(signer) && now.Before(c.RenewAt))
}

// sign makes a key and its certificate, which it signs itself where there is no signer.
func sign(random Random, template *x509.Certificate, signer *Authority) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, nil, err
	}
	serial := make([]byte, 16)
	if n, err := random.Read(serial); err != nil || n < len(serial) {
		return nil, nil, fmt.Errorf("reading randomness: %d bytes, %w", n, err)
	}
	// A serial number is positive, and has 20 bytes at most (RFC 5280, 4.1.2.2).
	template.SerialNumber = new(big.Int).SetBytes(append([]byte{1}, serial...))
	parent, with := template, key
	if signer != nil {
		parent, with = signer.Certificate, signer.key
	}
	der, err := x509.CreateCertificate(random, template, parent, key.Public(), with)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return key, certificate, err
}
