package issuer

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/recorder"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// How long events are gathered before a pass, which reads all anew: until there is a certificate proxies wait for it,
// afterwards nobody does.
const (
	gatherAtFirst = 100 * time.Millisecond
	gatherFor     = time.Second
)

// SetUp registers the controller with the manager. Its Certificate is asked for at each handshake.
func SetUp(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	named, err := newByName(mgr, o)
	if err != nil {
		return nil, fmt.Errorf("making a cache of what has a name: %w", err)
	}
	if err := mgr.Add(named); err != nil {
		return nil, fmt.Errorf("registering a cache of what has a name: %w", err)
	}
	r := New(o, mgr.GetAPIReader(), mgr.GetClient(), recorder.ByNote(mgr.GetEventRecorder(FieldManager)))
	passes := onepass.GatherFor(r.moment)
	all := false
	options := onepass.Options()
	options.NeedLeaderElection = &all
	if o.GatewayAPI != nil {
		o.GatewayAPI.Listeners = append(o.GatewayAPI.Listeners, func(kind string, _ types.NamespacedName) {
			if kind == "GatewayClass" || kind == "" {
				passes.Trigger()
			}
		})
	}
	b := ctrl.NewControllerManagedBy(mgr).Named("issuer").
		Watches(&networkingv1.IngressClass{}, passes).
		Watches(&v1alpha1.IngressDaemonSet{}, passes, comingsAndGoings()).
		Watches(&corev1.Namespace{}, passes, comingsAndGoings()).
		WatchesRawSource(passes.Triggered()).
		WithOptions(options)
	for _, object := range watchedByName() {
		heard := func(client.Object) bool { return true }
		if object.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
			heard = r.hasProxies
		}
		b = b.WatchesRawSource(source.Kind[client.Object](named, object, passes, predicate.NewPredicateFuncs(heard)))
	}
	if err := b.Complete(r); err != nil {
		return nil, fmt.Errorf("setting up who signs: %w", err)
	}
	// Who begins to lead writes what is to be written.
	return r, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		passes.Trigger()
		<-ctx.Done()
		return nil
	}))
}

// New makes a Reconciler. live reads past the cache.
func New(o Options, live client.Reader, writer client.Writer, recorder events.EventRecorder) *Reconciler {
	return &Reconciler{Options: o, live: live, writer: writer, recorder: recorder, random: rand.Reader}
}

// moment is how long events are gathered.
func (r *Reconciler) moment() time.Duration {
	if r.certificate.Load() == nil {
		return gatherAtFirst
	}
	return gatherFor
}

// hasProxies reports whether an object's namespace has any, as of the last pass: anybody may write a ConfigMap with the
// name of ours into his own. When that gets proxies a pass notes it, and reads the ConfigMap afterwards.
func (r *Reconciler) hasProxies(o client.Object) bool {
	namespaces := r.namespaces.Load()
	return namespaces != nil && (*namespaces)[o.GetNamespace()]
}

// comingsAndGoings leave out changes of what is there and stays.
func comingsAndGoings() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}})
}

// byName is a cache of what is watched by its name: of other Secrets and ConfigMaps nothing is ever asked for. It
// starts before controllers do, in each replica.
type byName struct{ cache.Cache }

// GetCache has the manager start it with its own cache.
func (b byName) GetCache() cache.Cache { return b.Cache }

func newByName(mgr ctrl.Manager, o Options) (byName, error) {
	here := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:    here(Name),
			&corev1.Service{}:   here(o.Service),
			&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, Name)},
		},
	})
	return byName{c}, err
}

// watchedByName are the kinds of which byName has some. That they changed is all that is heard of them: no key
// is kept in a cache.
func watchedByName() (out []client.Object) {
	for _, kind := range []string{"Secret", "ConfigMap", "Service"} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		out = append(out, object)
	}
	return out
}
