package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/identity"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	// routedNodes have two pods each, whose proxies run as processes beside the cluster.
	routedNodes = 2
	// streamsObject is the name of what the controller writes for proxies, and of its Service.
	streamsObject = "ingress-daemonset-controller-proxies"
)

// routed is a controller that tells the proxies of an IngressDaemonSet what to serve. Controller and proxies run
// outside the cluster's network, as clients and endpoints do, which are this process's.
type routed struct {
	*bench
	controller *running
	// streams is where it tells them, trusted are its authorities, debug is where it can be profiled.
	streams, debug string
	trusted        []byte
	pods           []corev1.Pod
}

// onRouted runs f beside a cluster that has one.
func onRouted(ctx context.Context, o options, f func(context.Context, *routed) error) error {
	return on(ctx, o, routedNodes, func(ctx context.Context, b *bench) (err error) {
		s := &routed{bench: b}
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := s.startController(ctx); err != nil {
			return fmt.Errorf("starting the controller: %w", err)
		}
		defer func() { err = errors.Join(err, s.controller.end()) }()
		if err := s.awaitPods(ctx); err != nil {
			return fmt.Errorf("waiting for the pods of proxies: %w", err)
		}
		return f(ctx, s)
	})
}

// startController starts it with the classes of an IngressDaemonSet there.
func (s *routed) startController(ctx context.Context) error {
	if err := s.classes(ctx); err != nil {
		return err
	}
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	kubeconfig, err := s.kubeconfig(ctx, config.Host)
	if err != nil {
		return err
	}
	program, err := s.build(ctx, s.controllerPackage)
	if err != nil {
		return err
	}
	at, err := freePorts()
	if err != nil {
		return err
	}
	s.streams, s.debug = at.addresses()
	cmd := exec.CommandContext(ctx, program, "--kubeconfig="+kubeconfig, "--healthchecker-image=none", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--debug-bind-address="+s.debug, "--leader-election-namespace="+harness.Namespace, "--proxies", "--proxies-bind-address="+s.streams)
	s.controller, err = startGroup(filepath.Join(s.Dir(), "logs", "controller.log"), "controller", cmd)
	return err
}

// classes are those of Ingresses and of Gateways.
func (s *routed) classes(ctx context.Context) error {
	gateways := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	gateways.Dir = s.root
	api, err := gateways.Output()
	if err != nil {
		return fmt.Errorf("finding the Gateway API: %w", err)
	}
	for _, apply := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(s.root, "config", "proxies")},
		{"apply", "--server-side", "-f", filepath.Join(strings.TrimSpace(string(api)), "config", "crd", "standard")},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
	} {
		if out, err := s.Kubectl(ctx, apply...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w: %s", apply, err, out)
		}
	}
	set := newSet(metav1.ObjectMeta{Namespace: namespace, Name: idsName}, "0")
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: idsName}, Spec: networkingv1.IngressClassSpec{
		Controller: routing.ControllerName,
		Parameters: &networkingv1.IngressClassParametersReference{
			APIGroup: &v1alpha1.Kind.Group, Kind: v1alpha1.Kind.Kind, Name: idsName, Scope: ptr(networkingv1.IngressClassParametersReferenceScopeNamespace), Namespace: ptr(namespace),
		},
	}}
	gatewayClass := gatewayObject("GatewayClass", "", idsName, map[string]any{
		"controllerName": routing.ControllerName,
		"parametersRef":  map[string]any{"group": v1alpha1.Kind.Group, "kind": v1alpha1.Kind.Kind, "namespace": namespace, "name": idsName},
	})
	for _, o := range []client.Object{set, class, gatewayClass} {
		if err := s.client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// gatewayObject is one of the Gateway API.
func gatewayObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "spec": spec}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// awaitPods waits until all pods are there, and for what the controller writes for them.
func (s *routed) awaitPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: streamsObject}}
	err := until(ctx, func() (bool, error) {
		pods := &corev1.PodList{}
		err := s.client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": idsName})
		if err != nil || len(pods.Items) != routedNodes*podsPerNode {
			return false, errors.Join(err, fmt.Errorf("there are %d pods", len(pods.Items)))
		}
		s.pods = pods.Items
		err = s.get(ctx, written)
		s.trusted = []byte(written.Data["ca.crt"])
		return len(s.trusted) > 0, err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, s.controller.said())
	}
	return nil
}

// token is that of a pod, as kubelet would mount it.
func (s *routed) token(ctx context.Context, pod corev1.Pod) (string, error) {
	hour := int64(60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{identity.Audience}, ExpirationSeconds: &hour,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("a token of pod %s: %w", pod.Name, err)
	}
	return request.Status.Token, nil
}

// folder is that of a pod's proxy, with all that a pod mounts.
func (s *routed) folder(ctx context.Context, pod corev1.Pod) (dir string, err error) {
	dir = filepath.Join(s.Dir(), "bench", pod.Name)
	if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700); err != nil {
		return "", err
	}
	token, err := s.token(ctx, pod)
	if err != nil {
		return "", err
	}
	return dir, writeController(dir, s.trusted, s.streams, token)
}

// services creates so many Services, each with an endpoint there.
func (s *routed) services(ctx context.Context, n int, endpoint *net.TCPAddr) error {
	return s.each(ctx, n, func(ctx context.Context, i int) error {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceNumber(i)}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}}
		if err := s.client.Create(ctx, service); err != nil {
			return err
		}
		return s.client.Create(ctx, sliceOf(i, endpoint, "0"))
	})
}

func serviceNumber(i int) string { return fmt.Sprint("s", i) }

// sliceOf has the endpoint of a Service, which is a pod of that UID.
func sliceOf(i int, at *net.TCPAddr, uid string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: serviceNumber(i), Labels: map[string]string{discoveryv1.LabelServiceName: serviceNumber(i)}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(at.Port))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{at.IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: serviceNumber(i), UID: types.UID(uid)},
		}},
	}
}

// each does something so many times, many at a time.
func (s *routed) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error { return do(groupCtx, i) })
	}
	return group.Wait()
}

// ownAddress is one of this machine that an EndpointSlice may have, which none of loopback is.
func ownAddress() (net.IP, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if network, is := a.(*net.IPNet); is && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.To4(), nil
		}
	}
	return nil, errors.New("this machine has no address of IPv4 beside loopback, which an EndpointSlice may have")
}

// answering answers everything with ok at an address of this machine, to itself alone, until the context ends.
func answering(ctx context.Context, at net.IP) (*net.TCPAddr, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: at})
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || host != at.String() {
			http.Error(w, "no client of this benchmark", http.StatusForbidden)
			return
		}
		fmt.Fprintln(w, "ok")
	})}
	go server.Serve(l)
	context.AfterFunc(ctx, func() { server.Close() })
	return l.Addr().(*net.TCPAddr), nil
}
