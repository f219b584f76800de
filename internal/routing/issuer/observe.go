package issuer

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/gatewayapi"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// observed is what there is.
type observed struct {
	// now is when all was read: what stands then stood since then, or longer.
	now time.Time
	// secret is nil where there is none.
	secret *corev1.Secret
	// address is where controllers are; otherwise noAddress says why that is not known.
	address, noAddress string
	// namespaces are those that have proxies and are not being deleted.
	namespaces map[string]*namespace
}

// namespace is one that has proxies.
type namespace struct {
	// sets are the IngressDaemonSets there that classes of ours name, or may name where named is false.
	sets  []metav1.PartialObjectMetadata
	named bool
	// configMap is nil where there is none.
	configMap *corev1.ConfigMap
}

func (r *Reconciler) observe(ctx context.Context) (o *observed, err error) {
	o = &observed{}
	if o.secret, err = get(ctx, r.live, r.Namespace, Name, &corev1.Secret{}); err != nil {
		return nil, fmt.Errorf("reading the Secret: %w", err)
	}
	service, err := get(ctx, r.live, r.Namespace, r.Service, &corev1.Service{})
	if err != nil {
		return nil, fmt.Errorf("reading the Service: %w", err)
	}
	o.address, o.noAddress = addressOf(service)
	if o.namespaces, err = r.readNamespaces(ctx); err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for name := range o.namespaces {
		there[name] = true
	}
	r.namespaces.Store(&there)
	for name, n := range o.namespaces {
		if n.configMap, err = get(ctx, r.live, name, Name, &corev1.ConfigMap{}); err != nil {
			return nil, fmt.Errorf("reading the ConfigMap in namespace %s: %w", name, err)
		}
		if !n.named && n.configMap == nil {
			// Nobody trusts anybody there yet.
			delete(o.namespaces, name)
		}
	}
	o.now = time.Now()
	return o, nil
}

// readNamespaces reads which namespaces have proxies, or may have some where not all GatewayClasses can be read.
func (r *Reconciler) readNamespaces(ctx context.Context) (map[string]*namespace, error) {
	classes := &networkingv1.IngressClassList{}
	if err := r.live.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("listing IngressClasses: %w", err)
	}
	gateways, unknown := r.gatewayClasses(ctx)
	if unknown != nil {
		log.FromContext(ctx).Info("cannot tell which IngressDaemonSets GatewayClasses name: no other namespace than before gets what its proxies trust", "why", unknown.Error())
	}
	// Their statuses, which are large, are not asked for.
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind.Kind + "List"))
	if err := r.live.List(ctx, sets); err != nil {
		return nil, fmt.Errorf("listing IngressDaemonSets: %w", err)
	}
	names, out := routing.SetsOf(classes.Items, gateways), map[string]*namespace{}
	for _, set := range sets.Items {
		named := names[client.ObjectKeyFromObject(&set)]
		if !named && unknown == nil {
			continue
		}
		n := out[set.Namespace]
		if n == nil {
			n = &namespace{}
			out[set.Namespace] = n
		}
		n.sets, n.named = append(n.sets, set), n.named || named
	}
	for name := range out {
		there, err := get(ctx, r.live, "", name, &corev1.Namespace{})
		if err != nil {
			return nil, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if there == nil || !there.DeletionTimestamp.IsZero() {
			delete(out, name)
		}
	}
	return out, nil
}

// listTime is how long the list of GatewayClasses may take, of which no certificate has to wait for long.
const listTime = 10 * time.Second

// gatewayClasses are those that can be read, and why others cannot.
func (r *Reconciler) gatewayClasses(ctx context.Context) (out []gatewayv1.GatewayClass, unknown error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gatewayv1.SchemeGroupVersion.WithKind("GatewayClassList"))
	// The Gateway API need not be installed.
	if err := r.live.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	for i := range list.Items {
		object, err := gatewayapi.Convert(&list.Items[i])
		if class, is := object.(*gatewayv1.GatewayClass); is && err == nil {
			out = append(out, *class)
		} else {
			unknown = err
		}
	}
	return out, unknown
}

// get reads an object, nil where there is none.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, namespace, name string, into P) (P, error) {
	err := from.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return into, nil
}

// state is what a decision is made from.
func (r *Reconciler) state(o *observed) authority.State {
	s := authority.State{
		Now: o.now, Leads: r.leads(), Random: r.random, ServerName: delta.ServerName, Address: o.address,
		ConfigMaps: map[string]map[string]string{}, Memory: r.memory,
	}
	if o.secret != nil {
		s.Secret = &authority.Secret{Type: string(o.secret.Type), Data: o.secret.Data}
	}
	for name, n := range o.namespaces {
		s.ConfigMaps[name] = filesOf(n.configMap)
	}
	return s
}

// filesOf are all files of a ConfigMap, as a pod finds them, nil where there is none.
func filesOf(c *corev1.ConfigMap) map[string]string {
	if c == nil {
		return nil
	}
	files := map[string]string{}
	maps.Copy(files, c.Data)
	for name, content := range c.BinaryData {
		files[name] = string(content)
	}
	return files
}
