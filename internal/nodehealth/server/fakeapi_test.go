package server

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// fakeAPI lists and watches one Deployment and one pod. It can be away, like an
// API server that was killed, and old, like one that does not stream lists.
type fakeAPI struct {
	t       *testing.T
	address string
	old     bool
	// silent opens watches and says nothing, like one that is cut off from its storage.
	silent atomic.Bool
	// unanswered is how many requests wait for what it does not say.
	unanswered atomic.Int32
	// forbids refuses everything, like an API server on which a right is missing.
	forbids atomic.Bool
	// identity, where there is one, is what it shows as a TLS server.
	identity *tls.Certificate

	mu      sync.Mutex
	server  *httptest.Server
	objects map[string]metav1.Object
	version int
	changed chan struct{}
	listed  int
}

// deploymentNames are those that the Deployment of web on n1 may have.
var deploymentNames = v1alpha1.DeploymentNames("web", "n1")

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{t: t, address: "127.0.0.1:0", objects: map[string]metav1.Object{}, changed: make(chan struct{})}
	f.come()
	t.Cleanup(f.leave)
	return f
}

// come makes it answer, at the same address as before.
func (f *fakeAPI) come() {
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = l.Addr().String()
	f.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f}}
	if f.identity == nil {
		f.server.Start()
		return
	}
	f.server.TLS = &tls.Config{Certificates: []tls.Certificate{*f.identity}}
	f.server.StartTLS()
}

func (f *fakeAPI) leave() {
	f.server.CloseClientConnections()
	f.server.Close()
}

func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: "http://" + f.address} }

// set replaces the object of its kind; nil deletes it.
func (f *fakeAPI) set(resource string, object metav1.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	if object == nil {
		delete(f.objects, resource)
	} else {
		object.SetResourceVersion(fmt.Sprint(f.version))
		f.objects[resource] = object
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAPI) now(resource, selector string) (object metav1.Object, version int, changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object = f.objects[resource]
	if name, named := strings.CutPrefix(selector, "metadata.name="); named && object != nil && object.GetName() != name {
		object = nil
	}
	return object, f.version, f.changed
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	resource, kind := "pods", "Pod"
	want := "/api/v1/namespaces/ns/pods"
	if strings.Contains(req.URL.Path, "deployments") {
		resource, kind, want = "deployments", "Deployment", "/apis/apps/v1/namespaces/ns/deployments"
	}
	q := req.URL.Query()
	selected := q.Get("labelSelector") == v1alpha1.LabelNode+"=n1,"+v1alpha1.LabelName+"=web" && q.Get("fieldSelector") == "spec.nodeName=n1"
	if resource == "deployments" {
		// An index of the API server's serves no other.
		selected = q.Get("labelSelector") == "" && slices.Contains(deploymentNames, strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name="))
	}
	w.Header().Set("Content-Type", "application/json")
	if f.forbids.Load() {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	}
	switch {
	case req.URL.Path != want || !selected:
		f.t.Errorf("asked for %s", req.URL)
		w.WriteHeader(http.StatusForbidden)
	case q.Get("watch") == "" && q.Get("resourceVersion") == "" && f.silent.Load():
		f.unanswered.Add(1)
		<-req.Context().Done()
	case q.Get("watch") == "" && q.Get("resourceVersion") == "":
		f.list(w, q.Get("fieldSelector"), resource, kind)
	case q.Get("watch") == "":
		f.t.Errorf("a list that may be old is asked for: %s", req.URL)
	case q.Get("sendInitialEvents") == "true" && f.old:
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	default:
		f.watch(w, req, resource, kind)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: "it is " + string(reason), Code: int32(code),
	})
}

func (f *fakeAPI) list(w http.ResponseWriter, selector, resource, kind string) {
	object, version, _ := f.now(resource, selector)
	f.mu.Lock()
	f.listed++
	f.mu.Unlock()
	items := []any{}
	if object != nil {
		items = append(items, object)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind + "List", "apiVersion": apiVersion(kind),
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items,
	})
}

func apiVersion(kind string) string {
	if kind == "Pod" {
		return "v1"
	}
	return "apps/v1"
}

func (f *fakeAPI) watch(w http.ResponseWriter, req *http.Request, resource, kind string) {
	send := func(event string, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": event, "object": object})
		w.(http.Flusher).Flush()
	}
	if f.silent.Load() {
		w.(http.Flusher).Flush()
		f.unanswered.Add(1)
		<-req.Context().Done()
		return
	}
	selector := req.URL.Query().Get("fieldSelector")
	sent, version, changed := f.now(resource, selector)
	if req.URL.Query().Get("sendInitialEvents") == "true" {
		if sent != nil {
			send("ADDED", sent)
		}
		send("BOOKMARK", map[string]any{
			"kind": kind, "apiVersion": apiVersion(kind),
			"metadata": map[string]any{
				"resourceVersion": fmt.Sprint(version),
				"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		})
	}
	if since := req.URL.Query().Get("resourceVersion"); since != "" && sent != nil && number(f.t, sent.GetResourceVersion()) > number(f.t, since) {
		send("MODIFIED", sent)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-changed:
		case <-req.Context().Done():
			return
		}
		var object metav1.Object
		object, _, changed = f.now(resource, selector)
		switch {
		case object == sent:
		case object == nil:
			send("DELETED", sent)
		case sent == nil:
			send("ADDED", object)
		default:
			send("MODIFIED", object)
		}
		sent = object
	}
}

func number(t *testing.T, version string) int {
	n, err := strconv.Atoi(version)
	if err != nil {
		t.Errorf("resource version %q: %v", version, err)
	}
	return n
}

func apiDeployment(annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-n1", Namespace: "ns", Annotations: annotations,
			Labels: map[string]string{v1alpha1.LabelNode: "n1", v1alpha1.LabelName: "web"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "IngressDaemonSet", Name: "web", UID: "web-uid", Controller: new(true),
			}},
		},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))},
	}
}

func apiPod(ready, containersReady bool, probe *corev1.Probe) *corev1.Pod {
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-n1-5d-x", Namespace: "ns", UID: "a",
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-n1-5d", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", ReadinessProbe: probe}}},
		Status: corev1.PodStatus{
			PodIP: "127.0.0.1", Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: status[ready]},
				{Type: corev1.ContainersReady, Status: status[containersReady]},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: containersReady}},
		},
	}
}

// pace makes what the probe finds known within a second.
func pace(probe *corev1.Probe) *corev1.Probe {
	probe.PeriodSeconds, probe.FailureThreshold, probe.SuccessThreshold = 1, 1, 1
	return probe
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(time.Millisecond) }
