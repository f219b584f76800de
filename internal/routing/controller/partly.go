package controller

import (
	"context"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// While not all of the Gateway API can be read, those wait alone who may have Gateways. Which ones they are, GatewayClasses
// say. Where these cannot be read and Gateways can, who has an IngressClass is told of its Ingresses, unless a Gateway's
// status says that its proxies serve it; and of these no proxy is told that has something of a Gateway, which it would take
// for gone. Where neither can be read all wait: new proxies would be ready without the Gateways that those serve whose
// place they take.

// waiting says which IngressDaemonSets wait.
func (r *Reconciler) waiting(o *observed) func(types.NamespacedName) bool {
	var classes []networkingv1.IngressClass
	var gatewayClasses []gatewayv1.GatewayClass
	serving := map[string]bool{}
	for _, object := range r.objects {
		switch o := object.(type) {
		case *networkingv1.IngressClass:
			classes = append(classes, *o)
		case *gatewayv1.GatewayClass:
			gatewayClasses = append(gatewayClasses, *o)
		case *gatewayv1.Gateway:
			if c := meta.FindStatusCondition(o.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed)); c != nil {
				serving[c.Message] = true
			}
		}
	}
	if classesKnown(o) {
		named := routing.SetsOf(nil, gatewayClasses)
		return func(set types.NamespacedName) bool { return named[set] }
	}
	if slices.Contains(o.unknown, "Gateway") {
		return func(types.NamespacedName) bool { return true }
	}
	named := routing.SetsOf(classes, nil)
	return func(set types.NamespacedName) bool { return !named[set] || serving[programmed(set).Message] }
}

func classesKnown(o *observed) bool { return !slices.Contains(o.unknown, "GatewayClass") }

// ofGatewayAPI reports whether a resource comes from an object of the Gateway API, by its name on the stream.
func ofGatewayAPI(name string) bool {
	object, is := routing.OriginOf(name)
	return is && slices.Contains(gatewayapi.Names, object.Kind)
}

// sayUnknown says for which kinds some proxies wait, once for as long as they are the same.
func (r *Reconciler) sayUnknown(ctx context.Context, o *observed) {
	unknown := o.unknown
	if r.complete {
		unknown = nil
	}
	if slices.Equal(unknown, r.unknown) {
		return
	}
	r.unknown = unknown
	if len(unknown) > 0 {
		log.FromContext(ctx).Info("kinds of the Gateway API cannot be read: proxies that may have Gateways are told nothing", "kinds", unknown)
	} else {
		log.FromContext(ctx).Info("all kinds of the Gateway API can be read: all proxies are told")
	}
}
