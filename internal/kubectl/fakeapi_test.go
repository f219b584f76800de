package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// fakeAPI is as much of an API server as the commands use: objects that are read,
// listed by label, and merged into, where the version is the one that the patch names.
type fakeAPI struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	version int
	// removed are those that were deleted.
	removed map[string]*unstructured.Unstructured
	// changed is closed when an object is stored, and made anew.
	changed chan struct{}
	// asked counts the requests.
	asked int
	// beforePatch is what somebody else does just before a patch arrives, once; beforeWatch just before a
	// watch begins, once.
	beforePatch, beforeWatch func()
	// afterWatch is what somebody else does when a watch has told what there is, which ends it, once.
	afterWatch func()
	// expired says that the next watch is told that it is too old.
	expired bool
	// missing is a group whose kinds are not installed.
	missing string
	// away is how many requests are told that the API server is not available.
	away int
}

// kind is a resource that discovery tells of.
type kind struct {
	version, resource, name string
	namespaced              bool
}

var (
	kindSet          = kind{v1alpha1.GroupVersion.String(), "ingressdaemonsets", "IngressDaemonSet", true}
	kindAttachment   = kind{v1alpha1.GroupVersion.String(), "attachments", "Attachment", false}
	kindDeployment   = kind{"apps/v1", "deployments", "Deployment", true}
	kindDaemonSet    = kind{"apps/v1", "daemonsets", "DaemonSet", true}
	kindRevision     = kind{"apps/v1", "controllerrevisions", "ControllerRevision", true}
	kindNode         = kind{"v1", "nodes", "Node", false}
	kindPod          = kind{"v1", "pods", "Pod", true}
	kindEvent        = kind{"v1", "events", "Event", true}
	kindNamespace    = kind{"v1", "namespaces", "Namespace", false}
	kindService      = kind{"v1", "services", "Service", true}
	kindSlice        = kind{"discovery.k8s.io/v1", "endpointslices", "EndpointSlice", true}
	kindClass        = kind{"networking.k8s.io/v1", "ingressclasses", "IngressClass", false}
	kindIngress      = kind{"networking.k8s.io/v1", "ingresses", "Ingress", true}
	kindGatewayClass = kind{gatewayv1.GroupVersion.String(), "gatewayclasses", "GatewayClass", false}
	kindGateway      = kind{gatewayv1.GroupVersion.String(), "gateways", "Gateway", true}
	kindRoute        = kind{gatewayv1.GroupVersion.String(), "httproutes", "HTTPRoute", true}
	kindGrant        = kind{gatewayv1.GroupVersion.String(), "referencegrants", "ReferenceGrant", true}

	kinds = []kind{kindSet, kindAttachment, kindDeployment, kindDaemonSet, kindRevision, kindNode, kindPod, kindEvent,
		kindNamespace, kindService, kindSlice, kindClass, kindIngress, kindGatewayClass, kindGateway, kindRoute, kindGrant}
)

func (k kind) path() string {
	if strings.Contains(k.version, "/") {
		return "/apis/" + k.version
	}
	return "/api/" + k.version
}

func (k kind) collection() string {
	if k.namespaced {
		return k.path() + "/namespaces/default/" + k.resource
	}
	return k.path() + "/" + k.resource
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{t: t, objects: map[string]*unstructured.Unstructured{}, removed: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// ids runs kubectl ids against it.
func (f *fakeAPI) ids(args ...string) (string, error) {
	return f.run(append(args, "--server", f.url, "--kubeconfig", "/dev/null", "-n", "default"))
}

// run runs kubectl ids with these arguments and no others.
func (f *fakeAPI) run(args []string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := NewCommand(streams, "v0")
	c.SetArgs(args)
	err := c.ExecuteContext(f.t.Context())
	return out.String(), err
}

// patience is how long a command may take to print what it is ended at.
const patience = 30 * time.Second

// idsUntil is ids, ended when it prints that.
func (f *fakeAPI) idsUntil(line string, args ...string) (string, error) {
	f.t.Helper()
	patient, stop := context.WithTimeout(f.t.Context(), patience)
	defer stop()
	ctx, cancel := context.WithCancelCause(patient)
	out := &interrupter{line: line, cancel: func() { cancel(errInterrupted) }}
	c := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}, "v0")
	c.SetArgs(append(args, "--server", f.url, "--kubeconfig", "/dev/null", "-n", "default"))
	err := c.ExecuteContext(ctx)
	if !strings.Contains(out.String(), line) {
		f.t.Errorf("%v does not print %q", args, line)
	}
	return out.String(), err
}

var errInterrupted = errors.New("interrupted")

type interrupter struct {
	strings.Builder
	line   string
	cancel func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.Builder.Write(p)
	if strings.Contains(i.String(), i.line) {
		i.cancel()
	}
	return n, err
}

// put stores an object, as a write of the controller or of somebody else.
func (f *fakeAPI) put(k kind, object runtime.Object) {
	f.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		f.t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(k.version)
	u.SetKind(k.name)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(k.collection()+"/"+u.GetName(), u)
}

// store gives the object the next version.
func (f *fakeAPI) store(path string, u *unstructured.Unstructured) {
	f.version++
	u.SetResourceVersion(fmt.Sprint(f.version))
	f.objects[path] = u
	close(f.changed)
	f.changed = make(chan struct{})
}

// putFleet stores an IngressDaemonSet and what it has on its nodes.
func (f *fakeAPI) putFleet(set *v1alpha1.IngressDaemonSet, on fleet) {
	f.t.Helper()
	f.put(kindSet, set)
	for i := range on.nodes {
		node := &on.nodes[i]
		f.put(kindNode, node)
		labels := map[string]string{v1alpha1.LabelName: set.Name, v1alpha1.LabelNode: node.Name}
		d := on.deployments[node.Name]
		d.Namespace, d.Labels = set.Namespace, labels
		d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)}
		f.put(kindDeployment, d)
		for _, pod := range on.pods[node.Name] {
			pod.Namespace, pod.Labels = set.Namespace, maps.Clone(labels)
			pod.Labels[v1alpha1.LabelRevision] = d.Spec.Template.Labels[v1alpha1.LabelRevision]
			f.put(kindPod, pod)
		}
	}
	for i := range on.daemonSets {
		ds := &on.daemonSets[i]
		ds.Namespace, ds.Name = set.Namespace, fmt.Sprintf("%s-%d", set.Name, i)
		ds.Labels[v1alpha1.LabelName] = set.Name
		f.put(kindDaemonSet, ds)
	}
}

// write changes an object as it is stored.
func (f *fakeAPI) write(k kind, name string, change func(*unstructured.Unstructured)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := k.collection() + "/" + name
	u := f.objects[path].DeepCopy()
	change(u)
	f.store(path, u)
}

// remove deletes an object.
func (f *fakeAPI) remove(k kind, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := k.collection() + "/" + name
	u := f.objects[path].DeepCopy()
	f.store(path, u)
	delete(f.objects, path)
	f.removed[path] = u
}

// read gives an object as it is stored.
func (f *fakeAPI) read(k kind, name string, into runtime.Object) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(f.objects[k.collection()+"/"+name].Object, into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	watches := req.URL.Query().Get("watch") != ""
	f.happens(req.Method == http.MethodPatch, &f.beforePatch)
	f.happens(watches, &f.beforeWatch)
	if watches {
		f.watch(w, req)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	code, answer := f.answer(req)
	if f.away > 0 {
		f.away--
		code, answer = http.StatusServiceUnavailable, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonServiceUnavailable, Code: http.StatusServiceUnavailable}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

// happens lets something happen once, if it is its time.
func (f *fakeAPI) happens(now bool, what *func()) (happened bool) {
	if !now {
		return false
	}
	f.mu.Lock()
	happens := *what
	*what = nil
	f.mu.Unlock()
	if happens != nil {
		happens()
	}
	return happens != nil
}

// watch tells of objects that are newer than the version that the request names, until nobody listens.
func (f *fakeAPI) watch(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	told, _ := strconv.Atoi(req.URL.Query().Get("resourceVersion"))
	for {
		f.mu.Lock()
		changed := f.changed
		var news []*unstructured.Unstructured
		for _, u := range f.matching(req) {
			if version, _ := strconv.Atoi(u.GetResourceVersion()); version > told {
				news = append(news, u)
			}
		}
		var gone []*unstructured.Unstructured
		for path, u := range f.removed {
			if version, _ := strconv.Atoi(u.GetResourceVersion()); version > told && within(path, req) {
				gone = append(gone, u)
			}
		}
		told = f.version
		expired := f.expired
		f.expired = false
		f.mu.Unlock()
		if expired {
			status := apierrors.NewResourceExpired("too old resource version").Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ERROR", "object": status})
			return
		}
		for _, u := range news {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": u.Object})
		}
		for _, u := range gone {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "DELETED", "object": u.Object})
		}
		w.(http.Flusher).Flush()
		if f.happens(true, &f.afterWatch) {
			return
		}
		select {
		case <-req.Context().Done():
			return
		case <-changed:
		}
	}
}

// matching are the objects that a request for many is for.
func (f *fakeAPI) matching(req *http.Request) []*unstructured.Unstructured {
	query := req.URL.Query()
	labelled, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		f.t.Error(err)
		labelled = labels.Nothing()
	}
	fielded, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		f.t.Error(err)
		fielded = fields.Nothing()
	}
	var found []*unstructured.Unstructured
	for _, path := range slices.Sorted(maps.Keys(f.objects)) {
		u := f.objects[path]
		about, _, _ := unstructured.NestedString(u.Object, "involvedObject", "kind")
		kind, _, _ := unstructured.NestedString(u.Object, "type")
		own := fields.Set{"metadata.name": u.GetName(), "involvedObject.kind": about, "type": kind}
		if within(path, req) && labelled.Matches(labels.Set(u.GetLabels())) && fielded.Matches(own) {
			found = append(found, u)
		}
	}
	return found
}

// within reports whether an object is in the collection that a request is for, of its namespace or of all.
func within(path string, req *http.Request) bool {
	collection := path[:strings.LastIndexByte(path, '/')]
	return collection == req.URL.Path || inNamespace.ReplaceAllString(collection, "/") == req.URL.Path
}

var inNamespace = regexp.MustCompile("/namespaces/[^/]+/")

func (f *fakeAPI) answer(req *http.Request) (int, any) {
	object, found := f.objects[req.URL.Path]
	switch {
	case found && req.Method == http.MethodPatch:
		return f.patch(req, object)
	case found && req.Method == http.MethodGet:
		return http.StatusOK, object.Object
	}
	if f.missing != "" && strings.HasPrefix(req.URL.Path, "/apis/"+f.missing+"/") {
		return notFound(req)
	}
	switch req.URL.Path {
	case "/api":
		return http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		var list metav1.APIGroupList
		for _, version := range []string{"apps/v1", "discovery.k8s.io/v1", "networking.k8s.io/v1", v1alpha1.GroupVersion.String(), gatewayv1.GroupVersion.String()} {
			group, v, _ := strings.Cut(version, "/")
			if group == f.missing {
				continue
			}
			known := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: v}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{known}, PreferredVersion: known})
		}
		return http.StatusOK, list
	}
	var resources metav1.APIResourceList
	for _, k := range kinds {
		if req.URL.Path == k.collection() || k.namespaced && req.URL.Path == k.path()+"/"+k.resource {
			return http.StatusOK, f.list(k, req)
		}
		if req.URL.Path == k.path() {
			resources.GroupVersion = k.version
			resources.APIResources = append(resources.APIResources, metav1.APIResource{Name: k.resource, Kind: k.name, Namespaced: k.namespaced})
		}
	}
	if len(resources.APIResources) > 0 {
		return http.StatusOK, resources
	}
	return notFound(req)
}

func notFound(req *http.Request) (int, any) {
	return http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: req.URL.Path + " not found"}
}

func (f *fakeAPI) list(k kind, req *http.Request) any {
	items := []any{}
	for _, u := range f.matching(req) {
		items = append(items, u.Object)
	}
	return map[string]any{"kind": k.name + "List", "apiVersion": k.version, "items": items, "metadata": map[string]any{"resourceVersion": fmt.Sprint(f.version)}}
}

func (f *fakeAPI) patch(req *http.Request, object *unstructured.Unstructured) (int, any) {
	patch, err := io.ReadAll(req.Body)
	if err != nil {
		f.t.Error(err)
	}
	var named metav1.PartialObjectMetadata
	present, _ := object.MarshalJSON()
	var merged []byte
	if types.PatchType(req.Header.Get("Content-Type")) == types.JSONPatchType {
		merged, err = applyTo(present, patch)
	} else {
		merged, err = mergeInto(present, patch, &named)
	}
	after := &unstructured.Unstructured{}
	if err != nil || after.UnmarshalJSON(merged) != nil {
		f.t.Errorf("%v: %s", err, patch)
	}
	if v := named.ResourceVersion; v != "" && v != object.GetResourceVersion() {
		return http.StatusConflict, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict, Message: "the object has been modified"}
	}
	was, _, _ := unstructured.NestedMap(object.Object, "spec")
	is, _, _ := unstructured.NestedMap(after.Object, "spec")
	if fmt.Sprint(was) != fmt.Sprint(is) {
		after.SetGeneration(object.GetGeneration() + 1)
	}
	if req.URL.Query().Get("dryRun") == "" {
		f.store(req.URL.Path, after)
	}
	return http.StatusOK, after.Object
}

// mergeInto merges a patch into what is there, and tells what it names of the object.
func mergeInto(present, patch []byte, named *metav1.PartialObjectMetadata) ([]byte, error) {
	if err := json.Unmarshal(patch, named); err != nil {
		return nil, err
	}
	return jsonpatch.MergePatch(present, patch)
}

func applyTo(present, patch []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return decoded.Apply(present)
}
