package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	compiling "github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	routing "github.com/mumoshu/ingress-daemonset-controller/internal/routing/controller"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/issuer"
	reviewing "github.com/mumoshu/ingress-daemonset-controller/internal/routing/reviewer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the manifests have.
const (
	streamsAddress = ":8445"
	streamsService = "ingress-daemonset-controller-proxies"
)

// proxies are the flags about the proxies that come with the controller.
type proxies struct {
	enabled          bool
	address, service string
	gateways         prefixes
	// certificate is the Secret whose certificate is presented where no other fits, empty for none.
	certificate secretName

	// leads says whether no other controller can lead at this moment; nil where there is
	// only one.
	leads func() bool
	// lease says who leads, nil where there is only one.
	lease *lease
}

func (o *proxies) register() {
	flag.BoolVar(&o.enabled, "proxies", false, "tell the proxies that come with the controller what to serve: the Ingresses and Gateways of each class that names their IngressDaemonSet")
	flag.StringVar(&o.address, "proxies-bind-address", streamsAddress, "address at which they are told")
	flag.Var(&o.gateways, "gateway-addresses", "addresses that Gateways may have, as CIDRs with commas between them, such as 192.0.2.16/28: each gets one of its own, which somebody has to lead to the nodes; without any they are reached at the addresses of nodes")
	flag.Var(&o.certificate, "default-certificate", "NAMESPACE/NAME of the Secret whose certificate every proxy presents for Ingresses where no other fits, or the client asks for no name; without it such a handshake fails")
	flag.StringVar(&o.service, "proxies-service", streamsService, "name of the Service, in the controller's namespace, whose cluster IP and port they are told as that address")
}

// check says which flag to change.
func (o *proxies) check() error {
	switch {
	case !o.enabled && (o.address != streamsAddress || o.service != streamsService || len(o.gateways) > 0 || o.certificate.Name != ""):
		return errors.New("--proxies-bind-address, --proxies-service, --gateway-addresses and --default-certificate need --proxies")
	case len(validation.IsDNS1123Label(o.service)) > 0:
		return fmt.Errorf("--proxies-service must be the name of a Service, not %q", o.service)
	}
	_, port, err := net.SplitHostPort(o.address)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || number == 0 {
		return fmt.Errorf("--proxies-bind-address must be ADDRESS:PORT, or :PORT for all addresses, not %q", o.address)
	}
	return nil
}

// keep has the cache keep what proxies are told of.
func (o *proxies) keep(c cache.Options) cache.Options {
	if o.enabled {
		routing.Keep(&c)
	}
	return c
}

// setUp registers what the flags ask for, which were checked. The namespace is that of the controller.
func (o *proxies) setUp(mgr ctrl.Manager, namespace string) error {
	if !o.enabled {
		return nil
	}
	gateways, err := gatewayapi.SetUp(mgr)
	if err != nil {
		return err
	}
	issued, err := issuer.SetUp(mgr, issuer.Options{Namespace: namespace, Service: o.service, GatewayAPI: gateways, Leads: o.leads})
	if err != nil {
		return err
	}
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("making a client for the reviews of tokens: %w", err)
	}
	log, acknowledged := mgr.GetLogger().WithName("streams"), routing.NewAcknowledgements()
	server := delta.NewServer(delta.Options{Identify: reviewing.New(live, log).Identify, Report: reported(log, acknowledged), Heard: acknowledged.Heard, Trusted: issued.Trusted})
	compile := compiling.Options{GatewayAddresses: o.gateways, DefaultCertificate: types.NamespacedName(o.certificate)}
	if err := routing.SetUp(mgr, routing.Options{Compile: compile, Server: server, Acknowledgements: acknowledged, GatewayAPI: gateways, Leads: o.leads}); err != nil {
		return err
	}
	s := &streams{
		server: server, address: o.address, secured: delta.Present(issued.Certificate),
		informers: mgr.GetCache(), cached: mgr.GetCache(), live: live,
	}
	if err := mgr.AddReadyzCheck("proxies", s.ready); err != nil {
		return fmt.Errorf("adding to what says whether the controller is ready: %w", err)
	}
	if err := mgr.Add(s); err != nil || o.lease == nil {
		return err
	}
	return mgr.Add(&telling{leader: o.lease, secured: delta.Introduce(issued.Certificate, issued.Trusted), progress: acknowledged.Tell, pause: askEvery})
}

// prefixes is a flag of CIDRs.
type prefixes []netip.Prefix

// String is of flag.Value.
func (p *prefixes) String() string {
	var out []string
	for _, one := range *p {
		out = append(out, one.String())
	}
	return strings.Join(out, ",")
}

// Set is of flag.Value.
func (p *prefixes) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(one))
		if err != nil {
			return fmt.Errorf("%q is no CIDR, such as 192.0.2.16/28", one)
		}
		if prefix.Masked() != prefix {
			return fmt.Errorf("%s has bits after its first %d: did you mean %s?", one, prefix.Bits(), prefix.Masked())
		}
		*p = append(*p, prefix)
	}
	return nil
}

// secretName is a flag of the name of a Secret, with its namespace.
type secretName types.NamespacedName

// String is of flag.Value.
func (n *secretName) String() string {
	if n.Name == "" {
		return ""
	}
	return types.NamespacedName(*n).String()
}

// Set is of flag.Value.
func (n *secretName) Set(text string) error {
	namespace, name, _ := strings.Cut(text, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%q is not NAMESPACE/NAME of a Secret", text)
	}
	*n = secretName{Namespace: namespace, Name: name}
	return nil
}
