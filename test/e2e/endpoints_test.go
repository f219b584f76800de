package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
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
}

// endings are those that applications have.
var endings = []ending{
	{name: "sleeps", sleep: 5},
	{name: "finishes"},
	{name: "exits", args: []string{"--exit-at-once"}},
}

// backendNodePort is of the Service in the control, which kube-proxy leads to endpoints.
const backendNodePort = 30090

// TestProxyEndpoints scales backends down and up for two minutes, which end in every way: no request is
// lost. In the control kube-proxy leads to the endpoints that exit at once. It runs alone, because pods that
// come and go take the machine.
func TestProxyEndpoints(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	if err := pushBackend(ctx); err != nil {
		t.Fatal(err)
	}
	s := scenario{example: "proxy.yaml", others: answerAll}
	fleet := s.open(ctx, t)
	var hosts []string
	for _, e := range endings {
		hosts = append(hosts, e.name)
		for _, object := range e.objects(fleet.Key.Namespace) {
			if err := theHarness.Create(ctx, object); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, host := range hosts {
		if err := waitScaled(ctx, client.ObjectKey{Namespace: fleet.Key.Namespace, Name: host}, most); err != nil {
			t.Fatal(err)
		}
	}
	front, err := fleet.Front(ctx, hostTold)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Stop()
	sender, err := fleet.Send(ctx, rate, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Stop()
	if err := scale(ctx, fleet.Key.Namespace, 2*time.Minute, func() bool { return false }); err != nil {
		t.Error(err)
	}
	report, err := sender.Stop()
	if err != nil {
		t.Fatal(err)
	}
	losesNothing(t, report)
	front.Stop()
	if !t.Failed() {
		controlEndpoints(ctx, t, fleet)
	}
}

// controlEndpoints does the same through kube-proxy, until a request is lost.
func controlEndpoints(ctx context.Context, t *testing.T, fleet *harness.Fleet) {
	t.Helper()
	front, err := fleet.Front(ctx, harness.Ports{Traffic: backendNodePort, Check: backendNodePort})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Stop()
	sender, err := fleet.Send(ctx, rate)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Stop()
	if err := scale(ctx, fleet.Key.Namespace, 2*time.Minute, func() bool { return sender.Snapshot().Failed > 0 }); err != nil {
		t.Error(err)
	}
	control, err := sender.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("control: %d of %d requests failed", control.Failed, control.Requests)
	if control.Failed == 0 {
		t.Errorf("the control lost nothing of %d requests, so that the test proves nothing", control.Requests)
	}
}

// most is how many pods each backend has, at most.
const most = 10

// steps are how many pods a backend has in turn: it loses most at once, and gets them back few at a time, because
// what starts them takes the machine that has to answer meanwhile.
var steps = []int32{1, 4, 7, most}

// scale takes one backend after the other through all steps, for a time or until done.
func scale(ctx context.Context, namespace string, during time.Duration, done func() bool) error {
	for begun, i := time.Now(), 0; time.Since(begun) < during && !done(); i++ {
		key := client.ObjectKey{Namespace: namespace, Name: endings[i%len(endings)].name}
		for _, replicas := range steps {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
			if err := theHarness.Patch(ctx, deployment, patch); err != nil {
				return err
			}
			if err := waitScaled(ctx, key, replicas); err != nil {
				return err
			}
		}
	}
	return nil
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

// objects are a Deployment, its Service, and the Ingress that leads to it, of the class
// of the namespace's name.
func (e ending) objects(namespace string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: e.name}
	labels := map[string]string{"app": e.name}
	container := corev1.Container{
		Name: "backend", Image: backendImage, Command: append([]string{"/backend"}, e.args...),
		Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
	}
	if e.sleep > 0 {
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: e.sleep}}}
	}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
	}}
	if e.name == "exits" {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, backendNodePort
	}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(most)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{container},
			}},
		}},
		service,
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: &namespace,
			Rules: []networkingv1.IngressRule{{Host: e.name, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: e.name, Port: networkingv1.ServiceBackendPort{Name: "http"}},
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
