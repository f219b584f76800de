package issuer

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
)

// sign has a new certificate signed, where the one there is does not stand any more.
func (r *Reconciler) sign(now time.Time, signer *authority.Authority) error {
	if signer == nil || r.certificate.Load().Stands(signer, now) {
		return nil
	}
	next, err := signer.Sign(r.random, delta.ServerName, now)
	if err != nil {
		return err
	}
	r.certificate.Store(next)
	return nil
}

// Trusted are the certificates of the authorities of all controllers, as PEM. It may be asked for at any time.
func (r *Reconciler) Trusted() []byte {
	if trusted := r.trusted.Load(); trusted != nil {
		return *trusted
	}
	return nil
}

// Certificate is what a handshake is shown. It may be asked for at any time.
func (r *Reconciler) Certificate() (*tls.Certificate, error) {
	c := r.certificate.Load()
	if c == nil {
		return nil, errors.New("there is no certificate yet: no authority of Secret " + r.Namespace + "/" + Name + " may sign one")
	}
	return &c.Certificate, nil
}
