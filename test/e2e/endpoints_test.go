package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	"github.com/mumoshu/ingress-daemonset-controller/tools/images"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// backendImage has test/e2e/backend.
const backendImage = "docker.io/mumoshu/backend:test"

// ending is how a backend's pods end.
type ending struct {
	name string
	args []string
	// sleep is for how many seconds they go on before that, 0 for none.
	sleep int64
	// loses says whether a request that may not be sent twice can be under way when they end.
	loses bool
}

// endings are those that applications have.
var endings = []ending{
	{name: "sleeps", sleep: 5},
	{name: "finishes", loses: true},
	{name: "exits", args: []string{"--exit-at-once"}, loses: true},
}

const (
	// backendNodePort is of the Service in the control, which kube-proxy leads to endpoints.
	backendNodePort = 30090
	// churning is how long backends come and go.
	churning = 2 * time.Minute
)

// TestProxyEndpoints plays what others, endpoints and controllers do to a proxy that goes on, on one fleet. It runs alone, because
// on a machine that cannot keep up with pods that come and go requests are late by minutes, and time out.
func TestProxyEndpoints(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patient)
	defer cancel()
	if err := pushBackend(ctx); err != nil {
		t.Fatal(err)
	}
	fleet := scenario{example: "proxy.yaml", others: ownClass, adjust: notAsPatient}.open(ctx, t)
	for _, e := range endings {
		if err := create(ctx, e.objects(fleet.Key.Namespace)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range endings {
		if err := waitScaled(ctx, client.ObjectKey{Namespace: fleet.Key.Namespace, Name: e.name}, most); err != nil {
			t.Fatal(err)
		}
	}
	for _, each := range []struct {
		name string
		play func(context.Context, *testing.T, *harness.Fleet)
	}{
		{"beside", beside}, {"churn", churn}, {"kube-proxy", controlChurn}, {"resets", resets}, {"apart", apart},
	} {
		if !t.Run(each.name, func(t *testing.T) { each.play(ctx, t, fleet) }) {
			t.Log(standing(ctx, fleet))
			return
		}
	}
}

// standing is how a fleet and its backends stand, and what happened to them and to nodes.
func standing(ctx context.Context, fleet *harness.Fleet) string {
	var all strings.Builder
	for _, args := range [][]string{
		{"get", "nodes,pods,endpointslices", "-o", "wide"}, {"events"}, {"-n", "default", "events"},
		{"-n", harness.Namespace, "get", "pods", "-o", "wide"},
		{"logs", "-l", "app=proxy", "--prefix", "--tail=30"}, {"-n", harness.Namespace, "logs", "-l", "app.kubernetes.io/name=ingress-daemonset-controller", "--prefix", "--tail=60"},
		{"-n", harness.Namespace, "logs", "-l", "app.kubernetes.io/name=ingress-daemonset-controller", "--prefix", "--previous", "--tail=200"},
	} {
		out, err := fleet.Kubectl(ctx, append([]string{"-n", fleet.Key.Namespace}, args...)...).CombinedOutput()
		fmt.Fprintf(&all, "%v: %v\n%s\n", args, err, out)
	}
	return all.String()
}

// notAsPatient has what is frozen begun anew sooner than after a minute.
func notAsPatient(set *v1alpha1.IngressDaemonSet) {
	set.Spec.Template.Spec.Containers[0].LivenessProbe.FailureThreshold = 2
}

func create(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := theHarness.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

const (
	// proxyPort is where proxies are reached on each node, proxyRate how many requests a second are sent to them.
	proxyPort, proxyRate = 80, 2100
)

// sending sends requests straight to a port of nodes until it is stopped, nine of ten on kept connections: what becomes
// of them is between those who serve there and endpoints.
func sending(ctx context.Context, t *testing.T, nodes []*cluster.Node, port int, requests ...harness.Request) (sender *traffic.Process, stop func() traffic.Report) {
	t.Helper()
	command, err := theHarness.Lab(ctx, "traffic")
	if err != nil {
		t.Fatal(err)
	}
	// What is late because the machine is busy with pods is not lost.
	options := traffic.Options{Rate: proxyRate, MaxFailures: 10_000, Timeout: 30 * time.Second}
	for _, r := range requests {
		for _, node := range nodes {
			kept := traffic.Stream{
				Name: fmt.Sprintf("%s %s %s kept", r.Method, r.Host, node.Name()), Method: r.Method, Host: r.Host,
				Address: net.JoinHostPort(node.IP(), fmt.Sprint(port)), KeepAlive: true, Share: 9,
			}
			anew := kept
			anew.Name, anew.KeepAlive, anew.Share = fmt.Sprintf("%s %s %s new", r.Method, r.Host, node.Name()), false, 1
			options.Streams = append(options.Streams, kept, anew)
		}
	}
	if sender, err = traffic.StartProcess(command, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sender.Stop() })
	return sender, func() traffic.Report {
		t.Helper()
		report, err := sender.Stop()
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
}

// churn scales backends down and up, which end in every way. No GET is lost, and of others only those that were written
// to a connection which their pod then closed without an answer: these nobody may send again.
func churn(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	var requests []harness.Request
	for _, e := range endings {
		requests = append(requests, harness.Request{Method: "GET", Host: e.name}, harness.Request{Method: "POST", Host: e.name})
	}
	_, stop := sending(ctx, t, fleet.Nodes(), proxyPort, requests...)
	ended, err := scale(ctx, fleet.Key.Namespace, churning, func() bool { return false })
	if err != nil {
		t.Error(err)
	}
	report := stop()
	t.Logf("%d requests, %.0f a second, %d failed, %d late, at most by %s", report.Requests, report.Rate, report.Failed, report.Late, report.MaxLate)
	lost := map[string]int{}
	for _, f := range report.Failures {
		method, to, _ := strings.Cut(f.Stream, " ")
		to, _, _ = strings.Cut(to, " ")
		if why := ended[to].permits(method, f); why != "" {
			t.Errorf("%s: %+v", why, f)
		}
		lost[to]++
	}
	for _, e := range endings {
		t.Logf("%s: %d POSTs had been written to a connection that its pod then closed", e.name, lost[e.name])
	}
	if report.Failed != int64(len(report.Failures)) || report.Requests < enough {
		t.Errorf("of %d failures %d are known:\n%s", report.Failed, len(report.Failures), report)
	}
}

// ends are when pods of a backend were told to end, from to by to, until all of them had.
type ends struct {
	ending
	spans [][2]time.Time
}

// permits says what is wrong with a request that failed, empty for nothing.
func (e ends) permits(method string, f traffic.Failure) string {
	const closed = `error=connection_terminated; details="no response while `
	at := f.Time.Add(f.Duration)
	switch {
	case method != "POST" || !e.loses:
		return "nothing of it may be lost"
	case f.Kind != traffic.Status || !strings.Contains(f.Detail, closed):
		return "it does not say that it was written, and its connection closed"
	case !slices.ContainsFunc(e.spans, func(span [2]time.Time) bool { return at.After(span[0]) && f.Time.Before(span[1]) }):
		return "no pod of it ended then"
	}
	return ""
}

// controlChurn does the same through kube-proxy, until a request is lost.
func controlChurn(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	sender, stop := sending(ctx, t, fleet.Nodes(), backendNodePort, harness.Request{Method: "GET", Host: "exits"})
	if _, err := scale(ctx, fleet.Key.Namespace, churning, func() bool { return sender.Snapshot().Failed > 0 }, "exits"); err != nil {
		t.Error(err)
	}
	control := stop()
	t.Logf("control: %d of %d requests failed", control.Failed, control.Requests)
	if control.Failed == 0 {
		t.Errorf("the control lost nothing of %d requests, so that the test proves nothing", control.Requests)
	}
}

// most is how many pods each backend has, at most.
const most = 10

// steps are how many pods a backend has in turn: it loses most at once, and gets them back few at a time with a rest
// after each, because what starts them takes the machine that has to answer meanwhile.
var steps = []int32{1, 4, 7, most}

const rest = 8 * time.Second

// scale takes one backend after the other through all steps, all of them or those named, for a time or until done, and
// says when their pods ended.
func scale(ctx context.Context, namespace string, during time.Duration, done func() bool, names ...string) (map[string]ends, error) {
	ended := map[string]ends{}
	turn := slices.DeleteFunc(slices.Clone(endings), func(e ending) bool { return len(names) > 0 && !slices.Contains(names, e.name) })
	for _, e := range turn {
		ended[e.name] = ends{ending: e}
	}
	for begun, i := time.Now(), 0; time.Since(begun) < during && !done(); i++ {
		name := turn[i%len(turn)].name
		for _, replicas := range steps {
			from := time.Now()
			if err := scaleTo(ctx, client.ObjectKey{Namespace: namespace, Name: name}, replicas); err != nil {
				return nil, err
			}
			if replicas == steps[0] {
				e := ended[name]
				e.spans = append(e.spans, [2]time.Time{from, time.Now()})
				ended[name] = e
			}
			if done() {
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
	}
	return ended, nil
}

// scaleTo waits until a backend has so many pods.
func scaleTo(ctx context.Context, key client.ObjectKey, replicas int32) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := theHarness.Patch(ctx, deployment, patch); err != nil {
		return err
	}
	return waitScaled(ctx, key, replicas)
}

// waitScaled waits until a backend has so many pods, all of them ready, and no other is left.
func waitScaled(ctx context.Context, key client.ObjectKey, replicas int32) error {
	return harness.Wait(ctx, fmt.Sprintf("%d pods of %s", replicas, key.Name), func() (bool, error) {
		deployment, pods := &appsv1.Deployment{}, &corev1.PodList{}
		if err := theHarness.Get(ctx, key, deployment); err != nil {
			return false, err
		}
		err := theHarness.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels{"app": key.Name})
		return deployment.Status.ReadyReplicas == replicas && len(pods.Items) == int(replicas), err
	})
}

// objects are a Deployment, its Service, and the Ingress that leads to it.
func (e ending) objects(namespace string) []client.Object {
	out := served(namespace, e.name)
	if service := out[0].(*corev1.Service); e.name == "exits" {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, backendNodePort
	}
	return append(out, e.pods(namespace, e.name, most))
}

// pods are a Deployment of a backend, which is of a service.
func (e ending) pods(namespace, service string, replicas int32) *appsv1.Deployment {
	container := corev1.Container{
		Name: "backend", Image: backendImage, Command: append([]string{"/backend"}, e.args...),
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		// A machine that is busy is slow to ask: that is no matter of the backend.
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 10, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")},
		}},
	}
	if e.sleep > 0 {
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: e.sleep}}}
	}
	labels := map[string]string{"app": e.name, "of": service}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{container},
		}},
	}}
}

// served are a Service, and the Ingress that leads to it, of the class of the namespace's name.
func served(namespace, name string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	return []client.Object{
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"of": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		}},
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: &namespace,
			Rules: []networkingv1.IngressRule{{Host: name, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Name: "http"}},
				}}},
			}}}},
		}},
	}
}

// pushBackend makes the backend's image and gives it to the registry of the cluster.
func pushBackend(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "backend-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+"/", "./backend")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the backend: %w: %s", err, out)
	}
	image, err := images.Commands(bin, runtime.GOARCH)
	if err != nil {
		return err
	}
	tar := filepath.Join(dir, "backend.tar")
	if err := images.Write(tar, backendImage, image); err != nil {
		return err
	}
	return theHarness.PushImage(ctx, backendImage, tar)
}
