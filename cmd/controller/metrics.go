package main

import (
	"flag"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsFlags are the flags about who may read the metrics.
type metricsFlags struct {
	address string
	secure  bool
}

func (o *metricsFlags) register() {
	flag.StringVar(&o.address, "metrics-bind-address", ":8080", "address of the metrics; 0 for none")
	flag.BoolVar(&o.secure, "metrics-secure", false, "serve the metrics by HTTPS, with a certificate that signs itself, and to those alone whose token may get /metrics")
}

// check says which flag to change.
func (o *metricsFlags) check() error {
	if o.secure && o.address == "0" {
		return fmt.Errorf("--metrics-secure serves nothing with --metrics-bind-address=0")
	}
	return nil
}

// options are those of the server that the flags ask for.
func (o *metricsFlags) options() server.Options {
	out := server.Options{BindAddress: o.address}
	if o.secure {
		out.SecureServing, out.FilterProvider = true, byToken
	}
	return out
}
