package controller

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// wiring is as much of a manager as SetUp needs. Events of its cache are made by hand.
type wiring struct {
	ctrl.Manager
	*cluster
	informers informertest.FakeInformers
	elected   chan struct{}
	runnables []manager.Runnable
	// reads are the objects that passes read one by one.
	reads chan routing.Ref
}

func (w *wiring) GetConfig() *rest.Config                        { return &rest.Config{} }
func (w *wiring) GetScheme() *runtime.Scheme                     { return w.API.Scheme() }
func (w *wiring) GetRESTMapper() meta.RESTMapper                 { return w.API.RESTMapper() }
func (w *wiring) GetHTTPClient() *http.Client                    { return &http.Client{} }
func (w *wiring) GetClient() client.Client                       { return noted{w.API, w} }
func (w *wiring) GetEventRecorder(string) recorder.EventRecorder { return w.cluster.events }
func (w *wiring) GetCache() cache.Cache                          { return &w.informers }
func (w *wiring) GetLogger() logr.Logger                         { return logr.Discard() }
func (w *wiring) Elected() <-chan struct{}                       { return w.elected }
func (w *wiring) GetControllerOptions() config.Controller {
	again := true
	return config.Controller{SkipNameValidation: &again}
}

func (w *wiring) Add(r manager.Runnable) error {
	w.runnables = append(w.runnables, r)
	return nil
}

// noted notes what is read, and has the cache show what is written.
type noted struct {
	client.Client
	*wiring
}

func (n noted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := n.Client.Get(ctx, key, o, opts...)
	read := routing.RefOf(o)
	read.Namespace, read.Name = key.Namespace, key.Name
	n.reads <- read
	return err
}

func (n noted) Status() client.SubResourceWriter { return shown{n.Client.Status(), n.wiring} }

type shown struct {
	client.SubResourceWriter
	*wiring
}

func (s shown) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	err := s.SubResourceWriter.Update(ctx, o, opts...)
	if informer, known := s.informers.FakeInformerFor(ctx, o); err == nil && known == nil {
		informer.Update(o, o)
	}
	return err
}

// newWiring is that of a cluster, and runs.
func newWiring(t *testing.T, objects ...client.Object) *wiring {
	t.Helper()
	w := wiringOf(newCluster(t, true, objects...))
	w.run(t)
	return w
}

func wiringOf(c *cluster) *wiring {
	w := &wiring{cluster: c, elected: make(chan struct{}), reads: make(chan routing.Ref, 1000)}
	w.informers.Scheme = w.GetScheme()
	return w
}

// unsynced is the informer of a kind, which is not synced until it is told. It comes before run.
func (w *wiring) unsynced(t *testing.T, object client.Object) *controllertest.FakeInformer {
	t.Helper()
	kinds, _, err := w.GetScheme().ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	informer := controllertest.NewFakeInformer()
	w.informers.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{kinds[0]: informer}
	return informer
}

// run sets the controller up, and runs what it adds in every replica until the test ends.
func (w *wiring) run(t *testing.T) {
	t.Helper()
	for _, kind := range watched {
		if _, err := w.informers.GetInformer(t.Context(), kind.object); err != nil {
			t.Fatal(err)
		}
	}
	if err := SetUp(w, w.Options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(w.runnables))
	for _, r := range w.runnables {
		if everywhere, is := r.(manager.LeaderElectionRunnable); !is || everywhere.NeedLeaderElection() {
			t.Errorf("a %T waits until it leads", r)
		}
		go func() { ended <- r.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range w.runnables {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// read waits until a pass reads an object.
func (w *wiring) read(t *testing.T, what client.Object) {
	t.Helper()
	for late := time.After(longest); ; {
		select {
		case ref := <-w.reads:
			if ref == routing.RefOf(what) {
				return
			}
		case <-late:
			t.Fatalf("no pass reads %s", routing.RefOf(what))
		}
	}
}

func (w *wiring) informer(t *testing.T, o client.Object) *controllertest.FakeInformer {
	t.Helper()
	informer, err := w.informers.FakeInformerFor(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return informer
}

// put stores an object, of which the cache tells as of a new or of a changed one.
func (w *wiring) put(t *testing.T, o client.Object) {
	t.Helper()
	before := o.DeepCopyObject().(client.Object)
	there := w.API.WithWatch.Get(t.Context(), client.ObjectKeyFromObject(o), before) == nil
	o.SetResourceVersion("")
	w.cluster.put(t, o)
	if there {
		w.informer(t, o).Update(before, o)
	} else {
		w.informer(t, o).Add(o)
	}
	w.read(t, o)
}

func (w *wiring) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.API.WithWatch.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	w.informer(t, o).Delete(o)
	w.read(t, o)
}

// TestNothingBeforeSynced: while not all was heard of one kind nothing is told to proxies, and no status is written:
// what is not known yet seems to be gone.
func TestNothingBeforeSynced(t *testing.T) {
	for kind, k := range watched {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wiringOf(unreached(t, fakeapi.New(t, append(base(), ingressTo("cheese", "cheese.example.com", "cheese"))...), true))
				informer := w.unsynced(t, k.object)
				w.run(t)
				close(w.elected)
				time.Sleep(time.Minute)
				if got := w.Writes(); w.Server.IsComplete() || len(got) > 0 {
					t.Errorf("before, proxies are told: %t, and written is %q", w.Server.IsComplete(), got)
				}
				informer.Synced()
				time.Sleep(time.Second)
				if got := strings.Join(w.Writes(), ", "); !w.Server.IsComplete() || got != "update Ingress/status cheese" {
					t.Errorf("afterwards proxies are told: %t, and written is %s", w.Server.IsComplete(), got)
				}
			})
		})
	}
}

// TestEachKindIsHeard: what comes, changes or goes of each kind that is watched leads to a pass, and so to what
// proxies are told and to where Ingresses are reached.
func TestEachKindIsHeard(t *testing.T) {
	w := newWiring(t, ingressTo("cheese", "cheese.example.com", "cheese"))
	p := w.proxy(t)
	// Who begins to lead makes a pass, though nothing changes.
	close(w.elected)
	if got := p.hear(t); !strings.Contains(got, "route/Ingress/shop/cheese/0") {
		t.Fatalf("told is %s", got)
	}
	base := base()
	set, class, service := base[0].(*v1alpha1.IngressDaemonSet), base[1].(*networkingv1.IngressClass), base[3].(*corev1.Service)
	other, node, pods := ingressTo("other", "other.example.com", "cheese"), nodeAt("n1", "192.0.2.7"), deploymentOn("n1")
	namespace := &corev1.Namespace{ObjectMeta: named("", "shop")}
	put := func(o client.Object) func() { return func() { w.put(t, o) } }
	gone := func(o client.Object) func() { return func() { w.delete(t, o) } }
	for _, step := range []struct {
		name string
		do   func()
		// told is in the next transaction, empty where there is none.
		told string
		// reached is where the Ingress is reached.
		reached string
	}{
		{"EndpointSlice comes", put(slice("10.1.0.1")), "endpoints/shop/cheese:80 10.1.0.1", "192.0.2.1"},
		{"EndpointSlice changes", put(slice("10.1.0.2")), "endpoints/shop/cheese:80 10.1.0.2", "192.0.2.1"},
		{"EndpointSlice goes", gone(slice("10.1.0.2")), "endpoints/shop/cheese:80", "192.0.2.1"},
		{"Service changes", func() {
			service.Annotations = map[string]string{routing.AnnotationMaxFails: "3"}
			w.put(t, service)
		}, "backend/shop/cheese:80", "192.0.2.1"},
		{"Service goes", gone(service), "-backend/shop/cheese:80", "192.0.2.1"},
		{"Service comes", put(service), "backend/shop/cheese:80", "192.0.2.1"},
		{"Ingress comes", put(other), "route/Ingress/shop/other/0", "192.0.2.1"},
		{"Ingress changes", func() {
			other.Spec.Rules[0].Host = "another.example.com"
			w.put(t, other)
		}, "route/Ingress/shop/other/0", "192.0.2.1"},
		{"Ingress goes", gone(other), "-route/Ingress/shop/other/0", "192.0.2.1"},
		{"IngressClass changes", func() {
			class.Spec.Controller = "example.com/another"
			w.put(t, class)
		}, "-listener/", ""},
		{"IngressClass goes", gone(class), "", ""},
		{"IngressClass comes", func() {
			class.Spec.Controller = routing.ControllerName
			w.put(t, class)
		}, "listener/", "192.0.2.1"},
		{"another Node comes", put(nodeAt("n2", "192.0.2.8")), "", "192.0.2.1"},
		{"its Deployment comes", put(deploymentOn("n2")), "", "192.0.2.1"},
		// Its pods serve on, and are told on.
		{"IngressDaemonSet goes", func() {
			w.delete(t, set)
			await.True(t, "an event of the class", func() bool { return strings.Contains(strings.Join(w.said(), " "), routing.ReasonInvalidParameters) })
		}, "", "192.0.2.1"},
		{"IngressDaemonSet comes", func() {
			set.Spec.ServiceName = ""
			w.put(t, set)
		}, "", "192.0.2.8"},
		{"IngressDaemonSet changes", func() {
			set.Spec.ServiceName = "entry"
			w.put(t, set)
		}, "", "192.0.2.1"},
		{"IngressDaemonSet changes back", func() {
			set.Spec.ServiceName = ""
			w.put(t, set)
		}, "", "192.0.2.8"},
		{"Deployment comes", put(pods), "", "192.0.2.8"},
		{"Node comes", put(node), "", "192.0.2.7 192.0.2.8"},
		{"Deployment changes", func() {
			pods.Annotations[v1alpha1.DefaultMarkKey] = ""
			w.put(t, pods)
		}, "", "192.0.2.8"},
		{"Deployment changes back", func() {
			delete(pods.Annotations, v1alpha1.DefaultMarkKey)
			w.put(t, pods)
		}, "", "192.0.2.7 192.0.2.8"},
		{"Node changes", func() {
			node.Annotations = map[string]string{v1alpha1.AnnotationNodeDetaching: "true"}
			w.put(t, node)
		}, "", "192.0.2.8"},
		{"Node changes back", func() {
			node.Annotations = nil
			w.put(t, node)
		}, "", "192.0.2.7 192.0.2.8"},
		{"Node goes", gone(node), "", "192.0.2.8"},
		{"Node comes again", put(node), "", "192.0.2.7 192.0.2.8"},
		{"Deployment goes", gone(pods), "", "192.0.2.8"},
		{"Namespace comes", put(namespace), "", "192.0.2.8"},
		{"Namespace changes", func() {
			namespace.Labels = map[string]string{"team": "a"}
			w.put(t, namespace)
		}, "", "192.0.2.8"},
		{"Namespace goes", gone(namespace), "", "192.0.2.8"},
	} {
		step.do()
		if step.told != "" {
			if got := p.hear(t); !strings.Contains(got, step.told) {
				t.Errorf("%s: told is %s", step.name, got)
			}
		}
		await.True(t, step.name+": reached at "+step.reached, func() bool { return w.addresses(t) == step.reached })
	}
}
