package targets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// nodeAddress stands for the network of a node: what listens there is seen by a health
// checker of that node, a process of this test.
const nodeAddress = "127.0.5.1"

// TestQuietNode detaches a node from a group with a settle time of an hour: when connections
// came after it left, and the last has ended, its health checker's word is enough.
func TestQuietNode(t *testing.T) {
	const node = "simulated-5"
	f := newFixture(t, "instance")
	f.reach(node, nodeAddress)
	clients := f.listen(nodeAddress)
	port := clients.port()
	set := f.ingress(node, port)
	checker := f.checker(node, set, port)
	questions := &checker.questions
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromInt32(port), DetachFloorSeconds: new(int32(3600)), NodeSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpIn, Values: []string{"simulated-1", node}}},
		},
	})
	f.ready(a, 2)
	if asked := questions.Load(); asked > 0 {
		t.Errorf("%d questions about connections while nothing leaves", asked)
	}

	// A controller that starts meanwhile does not know of the connection, and waits for the settle time.
	theController.memory.RLock()
	defer theController.memory.RUnlock()
	f.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	f.eventually("its target left, long enough ago for a connection to have come after that", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		for _, g := range a.Status.Groups {
			for _, l := range g.Leaving {
				if l.LeftAt != nil && time.Since(l.LeftAt.Time) > 2*time.Second {
					return nil
				}
			}
		}
		return fmt.Errorf("%+v", a.Status.Groups)
	})
	asked := questions.Load()
	f.eventually("questions while connections come", func(context.Context) error {
		clients.dial()
		if questions.Load() < asked+3 {
			return fmt.Errorf("%d", questions.Load()-asked)
		}
		return nil
	})
	// How far apart a health checker looks follows what that costs: a busy machine may take so long
	// that one connection might have come before the target left.
	enough := time.Now()
	f.eventually("a connection that came after the target left", func(ctx context.Context) error {
		clients.dial()
		return checker.cameAfter(ctx, enough)
	})
	if at := f.node(node).Annotations[v1alpha1.AnnotationDetachmentTimestamp]; at != "" {
		t.Errorf("it is said to be detached at %s, while a connection is open", at)
	}
	clients.close()
	f.eventually("the timestamp", func(context.Context) error {
		n := f.node(node)
		evidence := n.Annotations[v1alpha1.AnnotationDetachmentEvidence]
		if n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" || !strings.Contains(evidence, string(targets.SeenQuiet)) || strings.Contains(evidence, string(targets.FloorPassed)) {
			return fmt.Errorf("%v", n.Annotations)
		}
		return nil
	})
	asked = questions.Load()
	f.annotate(node, v1alpha1.AnnotationNodeDetached, nil)
	f.ready(a, 2)
	if more := questions.Load() - asked; more > 2 {
		t.Errorf("%d questions about connections after they stopped", more)
	}
	f.eventually("no mark", func(ctx context.Context) error {
		return notFound(api.Get(ctx, client.ObjectKey{Name: node}, &v1alpha1.Attachment{}))
	})
	f.removedAtOnce(a)
	f.removed(set)
}

// notFound is an error unless something was not found.
func notFound(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	return client.IgnoreNotFound(err)
}

// reach gives a simulated node an address of this machine.
func (f *fixture) reach(node, address string) {
	f.Helper()
	n := f.node(node)
	patch := client.MergeFrom(n.DeepCopy())
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	f.must(api.Status().Patch(f.Context(), n, patch))
}

// listener has connections that its clients keep open.
type listener struct {
	*fixture
	net.Listener
	conns []net.Conn
}

func (f *fixture) listen(address string) *listener {
	f.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	f.must(err)
	f.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	return &listener{fixture: f, Listener: l}
}

func (l *listener) port() int32 { return int32(l.Addr().(*net.TCPAddr).Port) }

func (l *listener) dial() {
	l.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	l.must(err)
	l.conns = append(l.conns, conn)
}

func (l *listener) close() {
	l.Helper()
	for _, conn := range l.conns {
		l.must(conn.Close())
	}
}

// ingress is an IngressDaemonSet on the network of one node, with its pods there.
func (f *fixture) ingress(node string, port int32) *v1alpha1.IngressDaemonSet {
	f.Helper()
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group}}
	set.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	set.Spec.HealthCheckNodePorts = []int32{10080}
	set.Spec.Template.Labels = map[string]string{"app": f.group}
	set.Spec.Template.Spec = corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
		Name: "proxy", Image: "proxy", Ports: []corev1.ContainerPort{{ContainerPort: port}},
	}}}
	f.must(api.Create(f.Context(), set))
	f.eventually("its pods", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := api.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": f.group}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("none")
		}
		return nil
	})
	return set
}

// checker is the health checker of a node.
type checker struct {
	// own is its port behind the one that counts the questions about connections.
	own       healthclient.Port
	questions atomic.Int32
}

// cameAfter is an error unless the health checker tells of a connection that came after that time.
func (c *checker) cameAfter(ctx context.Context, at time.Time) error {
	asked := time.Now()
	ports, err := c.own.Connections(ctx)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if p.CameSeconds != nil && asked.Add(-healthclient.Ago(*p.CameSeconds)).After(at) {
			return nil
		}
	}
	return fmt.Errorf("%+v", ports)
}

// checker runs the health checker of a node, and counts the questions about its
// connections on their way.
func (f *fixture) checker(node string, set *v1alpha1.IngressDaemonSet, port int32) *checker {
	f.Helper()
	dir := f.TempDir()
	path := filepath.Join(dir, "healthchecker")
	if out, err := exec.CommandContext(f.Context(), "go", "build", "-o", path, "../../cmd/healthchecker").CombinedOutput(); err != nil {
		f.Fatalf("building the health checker: %v: %s", err, out)
	}
	// Another process might take the port before the health checker does, which would then fail.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	own := free.Addr().(*net.TCPAddr).Port
	f.must(free.Close())
	cmd := exec.Command(path, "--namespace="+set.Namespace, "--name="+set.Name, "--node="+node, "--address=127.0.0.1",
		fmt.Sprintf("--port=%d", own), fmt.Sprintf("--ingress-ports=%d", port), "--state-dir="+dir, "--kubeconfig="+theCluster.Kubeconfig())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	f.must(cmd.Start())
	f.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})

	c := &checker{own: healthclient.Port{Node: node, Address: "127.0.0.1", Number: int32(own)}}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", own)})
	at, err := net.Listen("tcp", fmt.Sprintf("%s:%d", nodeAddress, set.Spec.HealthCheckNodePorts[0]))
	f.must(err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("connections") {
			c.questions.Add(1)
		}
		forward.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	server.Listener = at
	server.Start()
	f.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return c
}
