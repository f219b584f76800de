package routing

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxCertificate bounds the bytes of a chain and its key: all that proxies are told has a bound, and a Secret may have a
// megabyte. The longest keys, of 16,384 bits, have 13 kB, and a chain of three certificates for a hundred names each 20.
const maxCertificate = 64 << 10

// ReasonCertificateExpired: a certificate that is presented is not valid at this time.
const ReasonCertificateExpired = "CertificateExpired"

// secret is what is known of a Secret that somebody names.
type secret struct {
	// answered says whether it was said how it is, that it is not there, or that nobody can tell.
	answered bool
	// good is its last good certificate, nil for none, and leaf that which is presented.
	good *wire.Certificate
	leaf *x509.Certificate
	// problem is what is wrong with it as it is, empty for nothing.
	problem string
}

// explained is what is wrong, and what comes of it. Listeners name its certificate also where no good one is known: a
// proxy that has one, of a controller before, keeps it for as long as a listener names it.
func (s secret) explained() string {
	if s.good != nil {
		return s.problem + ": its last good certificate is presented"
	}
	return s.problem + ": proxies that have its certificate from before go on presenting it, handshakes that need it fail at others"
}

// unfit are those of hosts that the certificate, where it is known, is not for.
func (s secret) unfit(hosts []string) (out []string) {
	if s.leaf == nil {
		return nil
	}
	for _, host := range hosts {
		name := host
		if isWildcard(host) {
			if slices.Contains(s.leaf.DNSNames, host) {
				continue
			}
			// No certificate but one with that very wildcard is for all of its names.
			out = append(out, host)
			continue
		}
		if s.leaf.VerifyHostname(name) != nil {
			out = append(out, host)
		}
	}
	return out
}

// WantedSecrets are those that objects name, in the order of their names. Each is answered for by Set,
// Delete or Unreadable; until then what needs it stays as it was, or is not told proxies. What is older than
// others may then come after them: whoever begins serves nothing before all are answered for. One
// that nobody names any more is forgotten.
func (c *Compiler) WantedSecrets() (out []types.NamespacedName) {
	for k := range c.outcomes {
		if k.fact == wantedUnit {
			out = append(out, k.namespaced())
		}
	}
	slices.SortFunc(out, compareNames)
	return out
}

// UnansweredSecrets are the wanted ones that nobody answered for yet.
func (c *Compiler) UnansweredSecrets() []types.NamespacedName {
	return slices.DeleteFunc(c.WantedSecrets(), func(n types.NamespacedName) bool { return c.secrets[n] != nil && c.secrets[n].answered })
}

// compileWanted is there as long as somebody names the Secret.
func (v *view) compileWanted(k key) *outcome {
	if len(v.c.members[k]) == 0 {
		return nil
	}
	return &outcome{}
}

func (c *Compiler) setSecret(object *corev1.Secret) {
	n := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	if s := c.secrets[n]; s != nil && s.answered && s.problem == "" && s.presents(object) {
		return
	}
	good := wire.Certificate{Chain: bytes.Clone(object.Data[corev1.TLSCertKey]), Key: bytes.Clone(object.Data[corev1.TLSPrivateKeyKey])}
	leaf, err := parseCertificate(good)
	c.answer(n, func(s *secret) {
		if err != nil {
			s.problem = err.Error()
			return
		}
		s.good, s.leaf, s.problem = &good, leaf, ""
	})
}

// presents reports whether the last good certificate is that of a Secret.
func (s secret) presents(object *corev1.Secret) bool {
	return s.good != nil && bytes.Equal(s.good.Chain, object.Data[corev1.TLSCertKey]) && bytes.Equal(s.good.Key, object.Data[corev1.TLSPrivateKeyKey])
}

func (c *Compiler) deleteSecret(n types.NamespacedName) {
	c.answer(n, func(s *secret) { s.problem = "does not exist" })
}

// Unreadable tells that nobody can tell how a Secret is, and why. What needs it does not wait for it any more, and
// nothing is taken from proxies that have its certificate from before: until Set or Delete tells.
func (c *Compiler) Unreadable(n types.NamespacedName, why string) {
	c.answer(n, func(s *secret) { s.problem = "cannot be read (" + why + ")" })
}

// answer notes what is known of a Secret that is wanted.
func (c *Compiler) answer(n types.NamespacedName, note func(*secret)) {
	if c.outcomes[keyOf(wantedUnit, n)] == nil {
		return
	}
	s := c.secrets[n]
	if s == nil {
		s = &secret{}
		c.secrets[n] = s
	}
	s.answered = true
	note(s)
	c.touch(keyOf(secretObject, n))
}

// parseCertificate reads a chain and a key that belongs to it. The error names the part that is
// wrong, and nothing of the key.
func parseCertificate(c wire.Certificate) (*x509.Certificate, error) {
	if size := len(c.Chain) + len(c.Key); size > maxCertificate {
		return nil, fmt.Errorf("has %d bytes in %s and %s, more than %d", size, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, maxCertificate)
	}
	leaf, err := parseChain(c.Chain)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(c.Key)
	if err != nil {
		return nil, err
	}
	public, comparable := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !comparable || !public.Equal(leaf.PublicKey) {
		return nil, fmt.Errorf("has a %s that does not belong to its %s", corev1.TLSPrivateKeyKey, corev1.TLSCertKey)
	}
	return leaf, nil
}

func parseChain(text []byte) (leaf *x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a malformed %s: %w", corev1.TLSCertKey, err)
		}
		if leaf == nil {
			leaf = certificate
		}
	}
	if leaf == nil {
		return nil, fmt.Errorf("has no certificate in %s", corev1.TLSCertKey)
	}
	return leaf, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PRIVATE KEY" && !strings.HasSuffix(block.Type, " PRIVATE KEY") {
			continue
		}
		if key, err := parseKeyBytes(block.Bytes); err == nil {
			return key, nil
		}
		return nil, fmt.Errorf("has a %s that cannot be read", corev1.TLSPrivateKeyKey)
	}
	return nil, fmt.Errorf("has no private key in %s", corev1.TLSPrivateKeyKey)
}

// parseKeyBytes reads PKCS #8, PKCS #1 or SEC 1, as crypto/tls does.
func parseKeyBytes(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("no private key")
}

// certificateOf is the unit of a certificate that a listener of an IngressDaemonSet names.
func certificateOf(set, n types.NamespacedName) key { return keyOf(certificateUnit, n).in(set) }

func (v *view) compileCertificate(k key) *outcome {
	if len(v.c.members[k]) == 0 {
		return nil
	}
	s := v.secret(k.namespaced())
	if s.good == nil {
		return &outcome{}
	}
	out := &outcome{resources: []publication{published(k.set, wire.Resource{Name: k.namespaced().String(), Certificate: s.good})}}
	ref := Ref{"Secret", k.namespace, k.name}
	switch now := v.c.now; {
	case now.Before(s.leaf.NotBefore):
		out.wakeAt = s.leaf.NotBefore
		out.warnings = []Event{{ref, ReasonCertificateExpired, "the certificate is valid only from " + s.leaf.NotBefore.UTC().Format(time.RFC3339)}}
	case !now.After(s.leaf.NotAfter):
		out.wakeAt = s.leaf.NotAfter.Add(time.Second)
	default:
		out.warnings = []Event{{ref, ReasonCertificateExpired, "the certificate was valid until " + s.leaf.NotAfter.UTC().Format(time.RFC3339)}}
	}
	return out
}
