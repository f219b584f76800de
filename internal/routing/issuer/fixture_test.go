package issuer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// home is the namespace of controllers.
const home = "system"

// cluster is an API server, which notes each write and may refuse it.
type cluster struct {
	client.WithWatch
	writes []string
	// before is asked about each write, such as "update ConfigMap edge"; nil refuses none.
	before func(write string, o client.Object) error
	// unread is what cannot be read, such as "Secret".
	unread string
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	return &cluster{WithWatch: fakeapi.New(t, objects...)}
}

func (c *cluster) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.write("create", o, func() error { return c.WithWatch.Create(ctx, o, opts...) })
}

func (c *cluster) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.write("update", o, func() error { return c.WithWatch.Update(ctx, o, opts...) })
}

func (c *cluster) write(verb string, o client.Object, do func() error) error {
	what := fmt.Sprintf("%s %s %s", verb, reflect.TypeOf(o).Elem().Name(), o.GetNamespace())
	c.writes = append(c.writes, what)
	if c.before != nil {
		if err := c.before(what, o); err != nil {
			return err
		}
	}
	return do()
}

// wrote are the writes since the last time.
func (c *cluster) wrote() string {
	out := strings.Join(c.writes, ", ")
	c.writes = nil
	return out
}

func (c *cluster) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if reflect.TypeOf(o).Elem().Name() == c.unread {
		return errors.New("away")
	}
	return c.WithWatch.Get(ctx, key, o, opts...)
}

func (c *cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if reflect.TypeOf(list).Elem().Name() == c.unread {
		return errors.New("away")
	}
	return c.WithWatch.List(ctx, list, opts...)
}

// put stores an object, new or changed.
func (c *cluster) put(t *testing.T, o client.Object) {
	t.Helper()
	before := o.DeepCopyObject().(client.Object)
	err := c.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(o), before)
	if apierrors.IsNotFound(err) {
		err = c.WithWatch.Create(t.Context(), o)
	} else if err == nil {
		o.SetResourceVersion(before.GetResourceVersion())
		err = c.WithWatch.Update(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) remove(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.WithWatch.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// secret is the one there is, nil for none.
func (c *cluster) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := get(t.Context(), c.WithWatch, home, Name, &corev1.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// configMap is that of a namespace, nil for none.
func (c *cluster) configMap(t *testing.T, namespace string) *corev1.ConfigMap {
	t.Helper()
	m, err := get(t.Context(), c.WithWatch, namespace, Name, &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// replica is a controller.
type replica struct {
	*Reconciler
	c      *cluster
	leads  bool
	events []string
	logs   []string
}

func (c *cluster) replica(leads bool) *replica {
	r := &replica{c: c, leads: leads}
	r.Reconciler = New(Options{Namespace: home, Service: "controllers", Leads: func() bool { return r.leads }}, c, c, r)
	return r
}

// Eventf notes an event, and the object that it is about.
func (r *replica) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	about := regarding.(*corev1.ObjectReference)
	r.events = append(r.events, fmt.Sprintf("%s %s %s/%s %s: %s", kind, about.Kind, about.Namespace, about.Name, reason, fmt.Sprintf(note, args...)))
}

// said are the events and lines of the log since the last time.
func (r *replica) said() (events, logs []string) {
	events, logs = r.events, r.logs
	r.events, r.logs = nil, nil
	return events, logs
}

// quiet is that nothing was said since the last time.
func (r *replica) quiet(t *testing.T, when string) {
	t.Helper()
	if events, logs := r.said(); len(events)+len(logs) != 0 {
		t.Errorf("%s: events are %q, logged is %q", when, events, logs)
	}
}

// pass makes one, and says after how long the next is due.
func (r *replica) pass(t *testing.T) time.Duration {
	t.Helper()
	logger := funcr.New(func(_, line string) { r.logs = append(r.logs, line) }, funcr.Options{Verbosity: 10})
	result, err := r.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// accepted reports whether who trusts a ConfigMap's authorities accepts what a replica shows.
func (r *replica) accepted(t *testing.T, namespace string) bool {
	t.Helper()
	shown, err := r.Certificate()
	trusted := r.c.configMap(t, namespace)
	if err != nil || trusted == nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(trusted.Data[authority.FileAuthorities]))
	_, err = shown.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: delta.ServerName, CurrentTime: time.Now()})
	return err == nil
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
}

// proxies are an IngressDaemonSet in a namespace of its own, and a class of ours that names it.
func proxies(namespace string) []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: named("", namespace)},
		&v1alpha1.IngressDaemonSet{ObjectMeta: named(namespace, "web")},
		classOf(namespace),
	}
}

func classOf(namespace string) *networkingv1.IngressClass {
	group, scope := v1alpha1.Kind.Group, networkingv1.IngressClassParametersReferenceScopeNamespace
	return &networkingv1.IngressClass{ObjectMeta: named("", namespace), Spec: networkingv1.IngressClassSpec{
		Controller: routing.ControllerName,
		Parameters: &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: v1alpha1.Kind.Kind, Name: "web", Namespace: &namespace, Scope: &scope},
	}}
}

// service leads to controllers.
func service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: named(home, "controllers")}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	s.Spec.Ports = []corev1.ServicePort{{Port: 9443}}
	return s
}

// edge is a cluster with proxies in namespace edge, and others.
func edge(t *testing.T, others ...client.Object) *cluster {
	t.Helper()
	return newCluster(t, slices.Concat(proxies("edge"), []client.Object{service()}, others)...)
}

// installed is the same, with a leader that has settled.
func installed(t *testing.T, others ...client.Object) (*cluster, *replica) {
	t.Helper()
	c := edge(t, others...)
	r := c.replica(true)
	r.settle(t)
	if !r.accepted(t, "edge") {
		t.Fatal("proxies do not accept what the leader shows")
	}
	c.wrote()
	return c, r
}
