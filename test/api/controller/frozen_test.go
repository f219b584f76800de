package controller

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

// TestFrozenLeader: a leader is frozen with a request under way, at each of the moments
// of a node's turn that matter for the budget, and thaws when another leader has given
// the turn to another node. What it had decided upon is refused, and never are two nodes
// out together.
func TestFrozenLeader(t *testing.T) {
	f := newFixture(t, 2)
	claimed, other := f.nodes[0], f.nodes[1]
	f.kubectl("label", "node", other, "first=yes")
	moments := []*moment{
		newMoment("claims", http.StatusConflict, func(r *http.Request, body string) bool {
			return strings.HasSuffix(r.URL.Path, "/ingressdaemonsets/claims/status") && strings.Contains(body, `"wave":["`)
		}),
		newMoment("looks", http.StatusOK, func(r *http.Request, _ string) bool {
			return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/ingressdaemonsets/looks")
		}),
		newMoment("marks", http.StatusConflict, func(r *http.Request, body string) bool {
			return strings.HasSuffix(r.URL.Path, "/deployments/marks-"+claimed) && strings.Contains(body, v1alpha1.DefaultMarkKey)
		}),
		newMoment("updates", http.StatusConflict, func(r *http.Request, body string) bool {
			return strings.HasSuffix(r.URL.Path, "/deployments/updates-"+claimed) && strings.Contains(body, "proxy:v2")
		}),
	}
	for i, m := range moments {
		m.set = f.create(m.name, func(set *v1alpha1.IngressDaemonSet) { set.Spec.HealthCheckNodePorts = []int32{port + int32(i)} })
	}
	for _, m := range moments {
		f.complete(m.set)
		m.seen = f.record(m.set)
	}

	f.must(theController.stop())
	t.Cleanup(func() {
		var err error
		if theController, err = startController(context.Background(), firstImage); err != nil {
			t.Fatal(err)
		}
	})
	way := f.newWay(moments)
	path := filepath.Join(t.TempDir(), "controller")
	if out, err := exec.Command("go", "build", "-o", path, "../../../cmd/controller").CombinedOutput(); err != nil {
		t.Fatalf("building the controller: %v: %s", err, out)
	}
	first := f.startProgram(path, way.Server)
	for _, m := range moments {
		f.change(m.set, version("v2"))
	}
	for _, m := range moments {
		f.waitClosed(m.arrived, "the first leader "+m.name)
	}
	f.must(first.cmd.Process.Signal(syscall.SIGSTOP))
	for _, m := range moments[:3] {
		f.change(m.set, rolling(func(u *v1alpha1.RollingUpdate) {
			u.CanaryNodeSelector = map[string]string{"first": "yes"}
			// It stays out until the first leader has thawed.
			u.AnnotateDeploymentToDetach.GracePeriodSeconds = new(int32(3600))
		}))
	}
	second := f.startProgram(path, nil)
	for _, m := range moments[:3] {
		f.eventually(m.name+": the second leader takes the other node out", func() error {
			if d := f.deployment(m.set, other); !marked(d) {
				return fmt.Errorf("it is not marked")
			}
			return nil
		})
	}
	f.complete(moments[3].set)

	f.must(first.cmd.Process.Signal(syscall.SIGCONT))
	close(way.open)
	for _, m := range moments {
		f.waitClosed(m.answered, m.name+" is answered")
		if m.code != m.want {
			t.Errorf("the request of a leader that is none any more, which %s, was answered with %d, want %d", m.name, m.code, m.want)
		}
	}
	f.waitClosed(first.ended, "the first leader ends")
	for _, m := range moments[:3] {
		f.change(m.set, rolling(func(u *v1alpha1.RollingUpdate) { u.AnnotateDeploymentToDetach.GracePeriodSeconds = new(int32) }))
	}
	for _, m := range moments {
		f.complete(m.set)
		t.Log(m.name)
		f.checkHandshake(m.seen())
	}
	// The tests that count requests come next.
	for _, m := range moments {
		f.must(api.Delete(t.Context(), m.set))
	}
	for _, m := range moments {
		f.gone(m.set)
	}
	f.must(second.cmd.Process.Signal(syscall.SIGTERM))
	f.waitClosed(second.ended, "the second leader gives the lease back")
}

// moment is when a leader is frozen: with a request of one IngressDaemonSet under way.
type moment struct {
	name string
	want int
	is   func(r *http.Request, body string) bool
	set  *v1alpha1.IngressDaemonSet
	seen func() []*appsv1.Deployment
	// arrived and answered are closed when the request is held up, and when it was
	// answered with the code.
	arrived, answered chan struct{}
	code              int
}

func newMoment(name string, want int, is func(r *http.Request, body string) bool) *moment {
	return &moment{name: name, want: want, is: is, arrived: make(chan struct{}), answered: make(chan struct{})}
}

// way is between a controller and the API server. It holds up the first request of each
// moment until it is opened.
type way struct {
	*httptest.Server
	proxy *httputil.ReverseProxy
	ahead chan []*moment
	open  chan struct{}
}

func (f *fixture) newWay(moments []*moment) *way {
	f.Helper()
	admin, err := harness.AdminConfig(theCluster)
	f.must(err)
	target, err := url.Parse(admin.Host)
	f.must(err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(admin))
	f.must(err)
	w := &way{ahead: make(chan []*moment, 1), open: make(chan struct{})}
	w.ahead <- slices.Clone(moments)
	w.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		// It speaks of watches that end with their controller.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	w.Server = httptest.NewTLSServer(w)
	f.Cleanup(w.CloseClientConnections)
	return w
}

func (w *way) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m := w.meets(r, string(body)); m != nil {
		close(m.arrived)
		<-w.open
		// It was sent, whatever becomes of the sender.
		r, out = r.WithContext(context.WithoutCancel(r.Context())), &answer{ResponseWriter: out, to: m}
	}
	w.proxy.ServeHTTP(out, r)
}

// meets is the moment that begins with the request, nil where none does.
func (w *way) meets(r *http.Request, body string) *moment {
	ahead := <-w.ahead
	defer func() { w.ahead <- ahead }()
	i := slices.IndexFunc(ahead, func(m *moment) bool { return r.URL.Query().Get("dryRun") == "" && m.is(r, body) })
	if i < 0 {
		return nil
	}
	m := ahead[i]
	ahead = slices.Delete(ahead, i, i+1)
	return m
}

type answer struct {
	http.ResponseWriter
	to *moment
}

func (a *answer) WriteHeader(code int) {
	a.to.code = code
	close(a.to.answered)
	a.ResponseWriter.WriteHeader(code)
}

// program is the controller as users run it.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// startProgram starts the controller, which reaches the API server by way of another
// server where one is given.
func (f *fixture) startProgram(path string, by *httptest.Server) *program {
	f.Helper()
	own, err := accountConfig(f.Context())
	f.must(err)
	config, err := clientcmd.LoadFromFile(theCluster.Kubeconfig())
	f.must(err)
	here := config.Contexts[config.CurrentContext]
	here.AuthInfo, config.AuthInfos = accountName, map[string]*clientcmdapi.AuthInfo{accountName: {Token: own.BearerToken}}
	if by != nil {
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: by.Certificate().Raw})
		config.Clusters[here.Cluster] = &clientcmdapi.Cluster{Server: by.URL, CertificateAuthorityData: ca}
	}
	kubeconfig := filepath.Join(f.TempDir(), "kubeconfig")
	f.must(clientcmd.WriteToFile(*config, kubeconfig))
	p := &program{ended: make(chan struct{})}
	p.cmd = exec.Command(path, "--kubeconfig="+kubeconfig, "--healthchecker-image="+firstImage, "--leader-elect", "--leader-election-namespace="+systemNamespace,
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &bytes.Buffer{}
	p.cmd.Stdout, p.cmd.Stderr = said, said
	f.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // A leader that lost its lease ends with an error.
		close(p.ended)
	}()
	f.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if f.Failed() {
			f.Logf("a controller says:\n%s", said)
		}
	})
	return p
}

func (f *fixture) waitClosed(c chan struct{}, what string) {
	f.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		f.Fatalf("waited in vain until %s", what)
	}
}
