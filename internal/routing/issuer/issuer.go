// Package issuer keeps the authorities of package authority: it reads their Secret and ConfigMaps, writes
// what is decided, and has a certificate ready with which a controller shows proxies that it is one.
package issuer

import (
	"crypto/tls"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Name is that of the Secret of authorities in the controllers' namespace, and of the ConfigMap in each
// namespace that has proxies.
const Name = "ingress-daemonset-controller-proxies"

// Options say where controllers are.
type Options struct {
	// Namespace is that of controllers, which has the Secret and the Service.
	Namespace string
	// Service is the name of the Service that leads to the streams of all controllers: its first cluster IP
	// and its only port are the address that proxies are told.
	Service string
	// Leads says whether no other controller can lead at this moment; nil where there is only one.
	Leads func() bool
}

// SetUp registers the controller with the manager. The certificate that it gives is asked for at each
// handshake; there is an error while nobody may sign.
func SetUp(ctrl.Manager, Options) (certificate func() (*tls.Certificate, error), err error) {
	return nil, errors.New("not there yet")
}
