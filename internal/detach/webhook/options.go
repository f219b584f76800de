package webhook

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"time"

	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
)

const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)

// What is asked is the contract's.
type (
	Request = contract.Request
	Action  = contract.Action
	Node    = contract.Node
	Address = contract.Address
)

// Actions.
const (
	Detach = contract.Detach
	Attach = contract.Attach
)

// Options say whom to ask. They come from the flags of the controller alone: who
// may choose a URL makes the controller ask it.
type Options struct {
	// URL is one of https, without user and fragment; or of http where it leads to
	// this machine (localhost, 127.0.0.0/8, ::1) or AllowHTTP is set.
	URL string
	// Secret signs the requests: at least 32 bytes.
	Secret []byte
	// Timeout is how long a question may take, its answer included: at most 1 min,
	// 10 s by default.
	Timeout time.Duration
	// AllowHTTP lets requests go over a network unencrypted. They are signed all the
	// same, but who reads one can repeat it for five minutes.
	AllowHTTP bool
	// RootCAs are who signs the receiver's certificate; nil is the system's, of which
	// SSL_CERT_FILE and SSL_CERT_DIR tell.
	RootCAs *x509.CertPool
	// CAFile holds further ones, PEM. It is read for each question, so that an authority
	// that is renewed counts at once; empty for none.
	CAFile string
}

// roots are who signs the receiver's certificate at this moment.
func (o Options) roots() (*x509.CertPool, error) {
	if o.CAFile == "" {
		return o.RootCAs, nil
	}
	content, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	roots := o.RootCAs
	if roots == nil {
		if roots, err = x509.SystemCertPool(); err != nil {
			return nil, fmt.Errorf("reading the system's authorities: %w", err)
		}
	}
	roots = roots.Clone()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s holds no certificate", o.CAFile)
	}
	return roots, nil
}

func (o Options) target() (*url.URL, error) {
	target, err := url.Parse(o.URL)
	if err != nil {
		return nil, withoutURL(err)
	}
	switch {
	case target.Hostname() == "":
		return nil, fmt.Errorf("%.100q has no host: it must be like https://lb.example.com/detach", target.Redacted())
	case target.User != nil:
		return nil, errors.New("it holds a user, which is not sent: the signature tells who asks")
	case target.Fragment != "":
		return nil, errors.New("it holds a fragment (#…), which is not sent")
	case target.Scheme == "https":
	case target.Scheme != "http":
		return nil, fmt.Errorf("its scheme is %q: it must be https", target.Scheme)
	case !o.AllowHTTP && !loopback(target.Hostname()):
		return nil, fmt.Errorf("it is http to %s, which leaves this machine unencrypted: it must be https", target.Hostname())
	}
	return target, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

func (o Options) timeout() (time.Duration, error) {
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		return 0, fmt.Errorf("timeout %s: it must be from 0, which is the default, to %s", o.Timeout, maxTimeout)
	}
	if o.Timeout == 0 {
		return defaultTimeout, nil
	}
	return o.Timeout, nil
}
