package main

import (
	"flag"
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/analysis"
	ctrl "sigs.k8s.io/controller-runtime"
)

// analyses are the flags about what checks of analyses may reach.
type analyses struct {
	hosts     list
	providers string

	// permitted are the hosts, once they were checked.
	permitted analysis.Hosts
}

func (o *analyses) register() {
	flag.Var(&o.hosts, "analysis-hosts", "what checks may reach beside the Services of their own namespace and the ports of their own pods: NAME, *.DOMAIN, ADDRESS or ADDRESS/BITS, each also with :PORT; may be repeated")
	flag.StringVar(&o.providers, "analysis-providers", "", "file with the Prometheus servers that checks may name; empty for none")
}

// check reads what the flags ask for, or says which to change.
func (o *analyses) check() (err error) {
	if o.permitted, err = analysis.ParseHosts(o.hosts); err != nil {
		return fmt.Errorf("--analysis-hosts: %w", err)
	}
	if o.providers == "" {
		return nil
	}
	if err := analysis.CheckProviders(o.providers); err != nil {
		return fmt.Errorf("--analysis-providers: %w", err)
	}
	return nil
}

// measurer makes the measurements as the flags say, which were checked.
func (o *analyses) measurer(mgr ctrl.Manager) *analysis.Measurer {
	return analysis.New(analysis.Options{
		Services: mgr.GetClient(), Live: mgr.GetAPIReader(), APIServer: mgr.GetConfig().Host,
		Hosts: o.permitted, ProvidersFile: o.providers,
	})
}
