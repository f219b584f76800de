package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longest is for how long a test waits for what is to come.
const longest = 30 * time.Second

var web = types.NamespacedName{Namespace: "ingress", Name: "web"}

// cluster is an API server, a replica of the controller, and proxies of web on its streams.
type cluster struct {
	*fakeapi.API
	*Reconciler
	target string
	events *events.FakeRecorder
	// wake has one token when a pass was called for.
	wake chan struct{}

	mu sync.Mutex
	// forbidden says whether no Secret may be read.
	forbidden bool
	// secretsRead are those that were read or watched, closed ends their watches.
	secretsRead []string
	watches     []watch.Interface
}

func newCluster(t *testing.T, leads bool, objects ...client.Object) *cluster {
	t.Helper()
	return replicaOf(t, fakeapi.New(t, append(base(), objects...)...), leads)
}

// replicaOf is another process on the same API server.
func replicaOf(t *testing.T, api *fakeapi.API, leads bool) *cluster {
	t.Helper()
	c := unreached(t, api, leads)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.target = l.Addr().String()
	g, done := c.Server.GRPC(), make(chan struct{})
	go func() {
		defer close(done)
		g.Serve(l)
	}()
	t.Cleanup(func() {
		g.Stop()
		<-done
	})
	return c
}

// unreached is a process that no proxy can reach.
func unreached(t *testing.T, api *fakeapi.API, leads bool) *cluster {
	t.Helper()
	c := &cluster{API: api, events: events.NewFakeRecorder(100), wake: make(chan struct{}, 1)}
	server := delta.NewServer(delta.Options{
		Identify: func(ctx context.Context) (delta.Peer, error) {
			set := cmp.Or(delta.TokenOf(ctx), web.Name)
			return delta.Peer{IngressDaemonSet: types.NamespacedName{Namespace: web.Namespace, Name: set}, Pod: set + "-0", UID: types.UID(set + "-0-uid")}, nil
		},
		Report: func(delta.Report) {},
	})
	trigger := func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	c.Reconciler = New(t.Context(), Options{Server: server, Leads: func() bool { return leads }}, c.API, secretsOf{c.API, c}, c.events, trigger, func() {})
	c.statuses.turns.between = 0
	c.Acknowledgements.after = func(do func()) { do() }
	return c
}

// secretsOf notes which Secrets are read, and how.
type secretsOf struct {
	client.WithWatch
	c *cluster
}

func (s secretsOf) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	s.note("get " + key.String())
	return s.WithWatch.Get(ctx, key, o, opts...)
}

func (s secretsOf) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	s.note(fmt.Sprintf("watch %s/%s", o.Namespace, name))
	s.c.mu.Lock()
	forbidden := s.c.forbidden
	s.c.mu.Unlock()
	if forbidden {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, errors.New("no right to watch it"))
	}
	w, err := s.WithWatch.Watch(ctx, list, client.InNamespace(o.Namespace))
	if err == nil {
		s.c.mu.Lock()
		s.c.watches = append(s.c.watches, w)
		s.c.mu.Unlock()
	}
	return w, err
}

func (s secretsOf) note(what string) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !slices.Contains(s.c.secretsRead, what) {
		s.c.secretsRead = append(s.c.secretsRead, what)
	}
}

// moody is an API server of which Secrets are absent, forbidden, or that hangs.
type moody struct {
	client.WithWatch
	mu    sync.Mutex
	mode  string
	tried int
}

func (m *moody) become(mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mode = mode
}

func (m *moody) tries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tried
}

func (m *moody) Watch(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
	m.mu.Lock()
	m.tried++
	mode := m.mode
	m.mu.Unlock()
	switch mode {
	case "absent":
		return watch.NewRaceFreeFake(), nil
	case "hangs":
		<-ctx.Done()
	}
	return nil, errors.New("no right to watch it")
}

func (m *moody) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
}

// silent answers no write of a status.
type silent struct{ client.Client }

func (s silent) Status() client.SubResourceWriter { return silentStatus{s.Client.Status()} }

type silentStatus struct{ client.SubResourceWriter }

func (silentStatus) Update(ctx context.Context, _ client.Object, _ ...client.SubResourceUpdateOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// forbid says whether Secrets may be read from now on.
func (c *cluster) forbid(forbidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden = forbidden
}

// readSecrets are those that were read or watched, once each.
func (c *cluster) readSecrets() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(c.secretsRead)), ", ")
}

// pass makes a pass, told of what changed, and one of statuses.
func (c *cluster) pass(t *testing.T, changed ...client.Object) ctrl.Result {
	t.Helper()
	for _, o := range changed {
		c.changes.add(routing.RefOf(o))
	}
	result, err := c.Reconcile(t.Context(), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.statuses.Reconcile(t.Context(), ctrl.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter == 0 || again.RequeueAfter > 0 && again.RequeueAfter < result.RequeueAfter {
		return again
	}
	return result
}

// awaken waits until a pass is called for, and makes it.
func (c *cluster) awaken(t *testing.T) {
	t.Helper()
	select {
	case <-c.wake:
		c.pass(t)
	case <-time.After(longest):
		t.Fatal("no pass is called for")
	}
}

// proxy is a stream of one, which is opened when it is to hear of something, and as soon as the controller has all.
type proxy struct {
	open func(*testing.T) *delta.Client
}

func (c *cluster) proxy(t *testing.T) proxy {
	t.Helper()
	return c.proxyWith(t, wire.Request{Node: "web-0", TypeURL: wire.TypeURL})
}

// proxyWith is a stream of web that begins with a request.
func (c *cluster) proxyWith(t *testing.T, first wire.Request) proxy {
	t.Helper()
	return c.proxyOf(t, web.Name, first)
}

// proxyOf is one of another IngressDaemonSet of its namespace.
func (c *cluster) proxyOf(t *testing.T, set string, first wire.Request) proxy {
	t.Helper()
	connection, err := delta.Dial(c.target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+set), longest)
	t.Cleanup(func() {
		cancel()
		connection.Close()
	})
	var p *delta.Client
	return proxy{func(t *testing.T) *delta.Client {
		t.Helper()
		if p != nil {
			return p
		}
		err := await.NoError(ctx, func() (err error) {
			p, err = delta.Open(ctx, connection)
			return err
		})
		if err == nil {
			err = p.Send(first)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}}
}

// hear is the next transaction, in short, which the proxy takes.
func (p proxy) hear(t *testing.T) string {
	t.Helper()
	stream := p.open(t)
	r, err := stream.Receive()
	if err == nil {
		err = stream.Send(wire.Request{TypeURL: wire.TypeURL, Nonce: r.Nonce})
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range r.Resources {
		resource, err := wire.Decode(d.Value)
		if err != nil {
			t.Fatal(err)
		}
		what := d.Name
		if resource.Endpoints != nil {
			for _, e := range resource.Endpoints.All {
				what += " " + fmt.Sprint(e.Address)
			}
		}
		out = append(out, what)
	}
	for _, name := range r.Removed {
		out = append(out, "-"+name)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// put stores an object, new or changed.
func (c *cluster) put(t *testing.T, o client.Object) {
	t.Helper()
	// Its status may be written meanwhile.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before := o.DeepCopyObject().(client.Object)
		err := c.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(o), before)
		if apierrors.IsNotFound(err) {
			return c.API.WithWatch.Create(t.Context(), o)
		}
		o.SetResourceVersion(before.GetResourceVersion())
		return errors.Join(err, c.API.WithWatch.Update(t.Context(), o))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name + "-uid")}
}

// classOf is an IngressClass of an IngressDaemonSet, both of one name.
func classOf(name string) *networkingv1.IngressClass {
	group, scope := v1alpha1.Kind.Group, networkingv1.IngressClassParametersReferenceScopeNamespace
	return &networkingv1.IngressClass{ObjectMeta: named("", name), Spec: networkingv1.IngressClassSpec{
		Controller: routing.ControllerName,
		Parameters: &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: v1alpha1.Kind.Kind, Name: name, Namespace: &web.Namespace, Scope: &scope},
	}}
}

// base is a class of web, which is reached at 192.0.2.1, and a Service.
func base() []client.Object {
	entry := &corev1.Service{ObjectMeta: named(web.Namespace, "entry")}
	entry.Spec.ExternalIPs = []string{"192.0.2.1"}
	shop := &corev1.Service{ObjectMeta: named("shop", "cheese")}
	shop.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return []client.Object{
		&v1alpha1.IngressDaemonSet{ObjectMeta: named(web.Namespace, web.Name), Spec: v1alpha1.IngressDaemonSetSpec{ServiceName: "entry"}},
		classOf(web.Name), entry, shop,
	}
}

// ingressTo is an Ingress of web to a Service in namespace shop.
func ingressTo(name, host, service string) *networkingv1.Ingress {
	class, prefix := "web", networkingv1.PathTypePrefix
	return &networkingv1.Ingress{ObjectMeta: named("shop", name), Spec: networkingv1.IngressSpec{
		IngressClassName: &class,
		Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}}}},
	}}
}

// slice has endpoints of the Service cheese.
func slice(addresses ...string) *discoveryv1.EndpointSlice {
	name, port := "", int32(8080)
	s := &discoveryv1.EndpointSlice{ObjectMeta: named("shop", "cheese-1"), AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: "cheese"}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

var everything = ctrl.Request{}

// unreadable is a cache that cannot be read.
type unreadable struct{ client.Client }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("away")
}

// ungettable is one of which lists can be read.
type ungettable struct{ client.Client }

func (ungettable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("away")
}

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("away")
}

func (c *cluster) ingress(t *testing.T) *networkingv1.Ingress {
	t.Helper()
	in := &networkingv1.Ingress{}
	if err := c.API.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "cheese"}, in); err != nil {
		t.Fatal(err)
	}
	return in
}

func (c *cluster) setOf(t *testing.T) *v1alpha1.IngressDaemonSet {
	t.Helper()
	set := &v1alpha1.IngressDaemonSet{}
	if err := c.API.WithWatch.Get(t.Context(), web, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// addresses are those of the status of the Ingress cheese.
func (c *cluster) addresses(t *testing.T) string {
	t.Helper()
	var out []string
	for _, entry := range c.ingress(t).Status.LoadBalancer.Ingress {
		out = append(out, entry.IP+entry.Hostname)
	}
	return strings.Join(out, " ")
}

// said are the events since the last time.
func (c *cluster) said() (out []string) {
	for {
		select {
		case e := <-c.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// certificate is a Secret with a new one for a host, which signs itself.
func certificate(t *testing.T, name, host string) *corev1.Secret {
	t.Helper()
	c := selfsigned.For(t, host)
	return &corev1.Secret{ObjectMeta: named("shop", name), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: c.Chain, corev1.TLSPrivateKeyKey: c.Key,
	}}
}
