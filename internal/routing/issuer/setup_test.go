package issuer

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/authority"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// served are the kinds of an API server, by their resources.
var served = map[string]struct {
	version schema.GroupVersion
	object  client.Object
	list    client.ObjectList
}{
	"secrets":           {corev1.SchemeGroupVersion, &corev1.Secret{}, &corev1.SecretList{}},
	"services":          {corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}},
	"configmaps":        {corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{}},
	"namespaces":        {corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{}},
	"ingressclasses":    {networkingv1.SchemeGroupVersion, &networkingv1.IngressClass{}, &networkingv1.IngressClassList{}},
	"ingressdaemonsets": {v1alpha1.GroupVersion, &v1alpha1.IngressDaemonSet{}, &v1alpha1.IngressDaemonSetList{}},
}

// frontend lets a manager read, watch and write a cluster over HTTP.
type frontend struct {
	*cluster
	mu sync.Mutex
	// watched are the resources of which a watch was opened.
	watched map[string]bool
	// wide are requests about more than what has a name of ours.
	wide []string
}

func (f *frontend) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	namespace, resource, name := split(q.URL.Path)
	kind, known := served[resource]
	if !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	selected := strings.TrimPrefix(q.URL.Query().Get("fieldSelector"), "metadata.name=")
	f.note(q, namespace, resource, name+selected)
	say := func(o client.Object) any {
		if strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata") {
			partial := meta.AsPartialObjectMetadata(o)
			partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
			return partial
		}
		gvk, _ := f.GroupVersionKindFor(o)
		o.GetObjectKind().SetGroupVersionKind(gvk)
		return o
	}
	object := kind.object.DeepCopyObject().(client.Object)
	var err error
	switch {
	case q.URL.Query().Get("sendInitialEvents") == "true":
		err = apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	case q.URL.Query().Get("watch") == "true":
		f.serveWatch(w, q, namespace, resource, selected, say)
		return
	case q.Method == http.MethodGet && name != "":
		err = f.Get(q.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	case q.Method == http.MethodGet:
		answer(w, http.StatusOK, f.listOf(q.Context(), namespace, resource, selected, say))
		return
	case q.Method == http.MethodPost:
		if err = json.NewDecoder(q.Body).Decode(object); err == nil {
			err = f.Create(q.Context(), object)
		}
	default:
		if err = json.NewDecoder(q.Body).Decode(object); err == nil {
			err = f.Update(q.Context(), object)
		}
	}
	if err != nil {
		body := err.(apierrors.APIStatus).Status()
		body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer(w, int(body.Code), body)
		return
	}
	answer(w, http.StatusOK, say(object))
}

// split reads the path of a request.
func split(path string) (namespace, resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if parts = parts[min(skip, len(parts)):]; len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	return namespace, parts[0], parts[1]
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body)
}

// note notes a request, and whether it is about more than it may.
func (f *frontend) note(q *http.Request, namespace, resource, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mayHave := map[string]string{"secrets": Name, "configmaps": Name, "services": "controllers"}
	want, bounded := mayHave[resource]
	away := resource != "configmaps" && namespace != home
	if bounded && q.Method == http.MethodGet && (name != want || away) {
		f.wide = append(f.wide, q.URL.String())
	}
}

func (f *frontend) listOf(ctx context.Context, namespace, resource, name string, say func(client.Object) any) any {
	list := served[resource].list.DeepCopyObject().(client.ObjectList)
	items := []any{}
	if err := f.List(ctx, list, client.InNamespace(namespace)); err == nil {
		meta.EachListItem(list, func(o runtime.Object) error {
			if item := o.(client.Object); name == "" || item.GetName() == name {
				items = append(items, say(item))
			}
			return nil
		})
	}
	gvk, _ := f.GroupVersionKindFor(list)
	return map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
}

func (f *frontend) serveWatch(w http.ResponseWriter, q *http.Request, namespace, resource, name string, say func(client.Object) any) {
	watch, err := f.Watch(q.Context(), served[resource].list, client.InNamespace(namespace))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer watch.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	f.mu.Lock()
	f.watched[resource] = true
	f.mu.Unlock()
	for {
		select {
		case e := <-watch.ResultChan():
			if o := e.Object.(client.Object); name == "" || o.GetName() == name {
				json.NewEncoder(w).Encode(map[string]any{"type": e.Type, "object": say(o.DeepCopyObject().(client.Object))})
				http.NewResponseController(w).Flush()
			}
		case <-q.Context().Done():
			return
		}
	}
}

// lock is one that another controller holds until this one is elected.
type lock struct{ elected atomic.Bool }

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.elected.Load() {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: "another", LeaseDurationSeconds: 3600}, []byte("another"), nil
}

func (*lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
func (*lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }
func (*lock) RecordEvent(string)                                              {}
func (*lock) Identity() string                                                { return "this" }
func (*lock) Describe() string                                                { return "a lock" }

// TestSetUp: a replica that does not lead shows a certificate, passes when any of what decides changes, and
// asks for no Secret, ConfigMap or Service but by its name. Elected, it writes what is missing.
func TestSetUp(t *testing.T) {
	ending := &corev1.Namespace{ObjectMeta: named("", "ending")}
	ending.Finalizers = []string{"kubernetes"}
	c := edge(t, ending)
	// The leader before ended when it had written the Secret.
	c.replica(true).pass(t)
	f := &frontend{cluster: c, watched: map[string]bool{}}
	api := httptest.NewServer(f)
	defer api.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	for resource, kind := range served {
		gvk, err := c.GroupVersionKindFor(kind.object)
		if err != nil {
			t.Fatal(err)
		}
		scope := meta.RESTScopeNamespace
		if resource == "namespaces" || resource == "ingressclasses" {
			scope = meta.RESTScopeRoot
		}
		mapper.AddSpecific(gvk, kind.version.WithResource(resource), kind.version.WithResource(strings.ToLower(gvk.Kind)), scope)
	}
	l, skip, long, renew, retry := &lock{}, true, time.Hour, time.Minute, 10*time.Millisecond
	mgr, err := ctrl.NewManager(&rest.Config{Host: api.URL, QPS: 1000, Burst: 1000, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, ctrl.Options{
		Scheme: c.Scheme(), Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: &skip},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		LeaderElection: true, LeaderElectionResourceLockInterface: l, LeaseDuration: &long, RenewDeadline: &renew, RetryPeriod: &retry,
	})
	if err != nil {
		t.Fatal(err)
	}
	passes := atomic.Int64{}
	r, err := SetUp(mgr, Options{Namespace: home, Service: "controllers", Leads: func() bool {
		defer passes.Add(1)
		return l.elected.Load()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await.True(t, "there is a certificate, and all is watched", func() bool {
		_, err := r.Certificate()
		f.mu.Lock()
		defer f.mu.Unlock()
		return err == nil && len(r.Trusted()) > 0 && len(f.watched) == len(served)
	})
	changed := func(o client.Object) client.Object {
		o.SetLabels(map[string]string{"changed": "yes"})
		return o
	}
	// No pass of another cause is taken for one of this.
	atRest := func() {
		last, since := passes.Load(), time.Now()
		await.True(t, "no pass is made", func() bool {
			if now := passes.Load(); now != last {
				last, since = now, time.Now()
			}
			return time.Since(since) > gatherFor*3/2
		})
	}
	for what, change := range map[string]func(){
		"the Secret changes":           func() { c.put(t, changed(c.secret(t))) },
		"a ConfigMap changes":          func() { c.put(t, &corev1.ConfigMap{ObjectMeta: named("edge", Name)}) },
		"the Service changes":          func() { c.put(t, changed(service())) },
		"a class changes":              func() { c.put(t, changed(classOf("edge"))) },
		"an IngressDaemonSet comes":    func() { c.put(t, proxies("other")[1]) },
		"a namespace is being deleted": func() { c.remove(t, &corev1.Namespace{ObjectMeta: named("", "ending")}) },
	} {
		atRest()
		before := passes.Load()
		change()
		await.True(t, "there is a pass when "+what, func() bool { return passes.Load() > before })
	}
	atRest()
	before := passes.Load()
	c.put(t, &corev1.ConfigMap{ObjectMeta: named("tenant", Name)})
	if atRest(); passes.Load() != before {
		t.Error("there is a pass for a ConfigMap of a namespace that has no proxies")
	}
	l.elected.Store(true)
	await.True(t, "it writes what is missing", func() bool { return c.configMap(t, "edge").Data[authority.FileAddress] != "" })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.wide) != 0 {
		t.Errorf("it asks for more than it may: %v", f.wide)
	}
}
