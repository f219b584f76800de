package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
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

// readRouting reads what routes are compiled from, of the whole cluster: of two objects that want the same the older
// has it, whatever their namespaces.
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

// notRead is why Secrets are not known. That their certificates are not is no problem of the cluster's.
const notRead = "kubectl ids reads no Secrets"
