package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/listing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// routesFlags are those of routes.
type routesFlags struct {
	everywhere  bool
	set, output string
	asked       table.Asked
}

func (o *operator) routes() *cobra.Command {
	var f routesFlags
	c := &cobra.Command{
		Use:   "routes [HOST PATH]",
		Short: "List what the proxies that come with the controller serve, or say which rule serves a request, and why",
		Long: `List what the proxies that come with the controller serve: each rule with its backends, how many of their
endpoints are ready, and what is wrong. With HOST and PATH it says which rule serves that request, and why no
other does. It is compiled from the objects of the cluster as the controller does it; Secrets are not read.`,
		Example: examples("kubectl ids routes shop.example.com /cart", "kubectl ids routes", "kubectl ids routes -A",
			"kubectl ids routes shop.example.com:8080 /cart --method POST --header Version:2"),
		Args: hostAndPath,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.read(c, args); err != nil {
				return err
			}
			api, namespace, err := o.connect()
			if err != nil {
				return err
			}
			objects, err := readRouting(c.Context(), api)
			if err != nil {
				return err
			}
			r, err := compileRouting(objects, time.Now()).of(f.set, namespace)
			if err != nil {
				return err
			}
			if f.everywhere {
				namespace = ""
			}
			return o.showRoutes(r, f, namespace)
		},
	}
	addEverywhere(c, &f.everywhere)
	flags := c.Flags()
	flags.StringVar(&f.set, "ingressdaemonset", "", "those of the proxies of this IngressDaemonSet, as NAME or NAMESPACE/NAME")
	flags.StringVar(&f.asked.Method, "method", "", "the request's method, GET by default")
	flags.StringVar(&f.asked.Scheme, "scheme", "", "http or https; http by default")
	flags.StringArrayVar(&f.asked.Headers, "header", nil, "a header of the request, as 'NAME: VALUE'; may be given again")
	flags.StringVarP(&f.output, "output", "o", "", "json or yaml")
	return c
}

// hostAndPath wants both or neither.
func hostAndPath(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 1:
		return missing(c, "PATH")
	case len(args) > 2:
		return fmt.Errorf("unexpected argument %q: the usage is %s", args[2], c.UseLine())
	}
	return nil
}

// read takes the arguments, and says what is wrong before the cluster is asked.
func (f *routesFlags) read(c *cobra.Command, args []string) error {
	if err := oneOf(f.output, "json", "yaml"); err != nil {
		return err
	}
	if len(args) == 0 {
		for _, name := range []string{"method", "scheme", "header"} {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s is of a request: give its HOST and PATH, for example: %s", name, firstExample(c))
			}
		}
		return nil
	}
	f.asked.Host, f.asked.Target = args[0], args[1]
	_, err := f.asked.Request()
	return err
}

// readRouting reads what routes are compiled from, of the whole cluster: older objects of any namespace have what
// they claim.
func readRouting(ctx context.Context, api client.Client) (out []metav1.Object, err error) {
	for _, list := range []client.ObjectList{
		&networkingv1.IngressClassList{}, &networkingv1.IngressList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
		&corev1.NamespaceList{}, &corev1.NodeList{}, &v1alpha1.IngressDaemonSetList{},
		&gatewayv1.GatewayClassList{}, &gatewayv1.GatewayList{}, &gatewayv1.HTTPRouteList{}, &gatewayv1.ReferenceGrantList{},
	} {
		// The Gateway API need not be installed.
		if err := api.List(ctx, list); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			out = append(out, item.(metav1.Object))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gatewayAddresses are those that Gateways have of their own, by their statuses: the controller's flag says which they
// may have, and is not known here. One that names none has either one of its own or those of nodes, of which there may
// be one too, for several Gateways.
func gatewayAddresses(objects []metav1.Object) (out []netip.Prefix) {
	own, unnamed := map[netip.Addr]bool{}, map[netip.Addr]int{}
	for _, object := range objects {
		g, is := object.(*gatewayv1.Gateway)
		if !is {
			continue
		}
		for _, a := range g.Status.Addresses {
			address, err := netip.ParseAddr(a.Value)
			switch {
			case err != nil:
			case len(g.Spec.Addresses) > 0:
				own[address] = true
			case len(g.Status.Addresses) == 1:
				unnamed[address]++
			}
		}
	}
	for address, n := range unnamed {
		if n == 1 {
			own[address] = true
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(own), netip.Addr.Compare) {
		out = append(out, netip.PrefixFrom(address, address.BitLen()))
	}
	return out
}

// routed is what the objects of a cluster come to: what the proxies of each IngressDaemonSet serve, and what is wrong.
type routed struct {
	tables   map[types.NamespacedName]*table.Table
	problems []routing.Event
}

// notRead is why Secrets are not known. That their certificates are not is no problem of the cluster's.
const notRead = "kubectl ids reads no Secrets"

func compileRouting(objects []metav1.Object, now time.Time) routed {
	c := routing.New(routing.Options{GatewayAddresses: gatewayAddresses(objects)})
	for _, object := range objects {
		c.Set(object)
	}
	statuses := map[routing.Ref]routing.Status{}
	compile := func() {
		for _, s := range c.Compile(now).Statuses {
			statuses[s.Object] = s
		}
	}
	compile()
	for _, secret := range c.UnansweredSecrets() {
		c.Unreadable(secret, notRead)
	}
	compile()
	r := routed{tables: map[types.NamespacedName]*table.Table{}}
	for _, e := range slices.Concat(c.Warnings(), refusals(statuses), classless(objects)) {
		if !strings.Contains(e.Message, notRead) {
			r.problems = append(r.problems, e)
		}
	}
	for _, set := range c.IngressDaemonSets() {
		r.serve(set, c.Resources(set))
	}
	return r
}

// serve has the proxies of an IngressDaemonSet told of resources, of which they may refuse some.
func (r *routed) serve(set types.NamespacedName, all []wire.Resource) {
	told := (&table.Table{}).Apply(table.Changes{Set: all})
	r.tables[set] = told.Table
	for _, refused := range told.Refused {
		object, _ := routing.OriginOf(refused.Name)
		r.problems = append(r.problems, routing.Event{Object: object, Reason: "Refused", Message: "proxies refuse it: " + refused.Err.Error()})
	}
}

// sets are the IngressDaemonSets, in the order of their names.
func (r routed) sets() []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(r.tables), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// of is what concerns one IngressDaemonSet, which is named as NAME or NAMESPACE/NAME; all where it is not named.
func (r routed) of(set, namespace string) (routed, error) {
	if set == "" {
		return r, nil
	}
	if !strings.Contains(set, "/") {
		set = namespace + "/" + set
	}
	var names []string
	for name, t := range r.tables {
		if name.String() == set {
			return routed{map[types.NamespacedName]*table.Table{name: t}, r.problems}, nil
		}
		names = append(names, name.String())
	}
	slices.Sort(names)
	return routed{}, fmt.Errorf("no class of %s names ingressdaemonset %q%s", routing.ControllerName, set, meant("", nearest(set, names)))
}

// showRoutes prints all of a namespace, empty for all, or the answer to a question: an error where nothing serves
// the request.
func (o *operator) showRoutes(r routed, f routesFlags, namespace string) error {
	if f.asked.Host == "" {
		out := r.list(namespace)
		if len(out.Rules)+len(out.Problems) == 0 && f.output == "" {
			fmt.Fprintln(o.streams.ErrOut, "No routes found")
			return nil
		}
		return printAs(o.streams.Out, f.output, out, out.text)
	}
	out, err := r.answer(f.asked)
	if err != nil {
		return err
	}
	if err := printAs(o.streams.Out, f.output, out, out.text); err != nil || out.served() {
		return err
	}
	var hosts []string
	for _, set := range r.sets() {
		hosts = append(hosts, listing.Hosts(r.tables[set])...)
	}
	slices.Sort(hosts)
	suggestion := ""
	if near := nearest(f.asked.Host, hosts); near != f.asked.Host {
		suggestion = meant("", near)
	}
	return errors.New(printable("no rule serves it" + suggestion))
}
