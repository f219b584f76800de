package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refused is an error of a status, as clients give it.
func refused(code int) error {
	return fmt.Errorf("reading: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Message: http.StatusText(code)}})
}

// TestAwaitAnswer waits for as long as nobody is there, and no longer than it takes to know what else is wrong.
func TestAwaitAnswer(t *testing.T) {
	type answer struct {
		from time.Duration
		err  error
	}
	const outage = 5 * time.Minute
	for name, c := range map[string]struct {
		answers []answer
		// says is the error, empty for none, and after when.
		says  string
		after time.Duration
	}{
		"there":                     {answers: []answer{{0, nil}}},
		"refused at once":           {[]answer{{0, refused(401)}, {time.Second, nil}}, "Unauthorized", 0},
		"away":                      {[]answer{{0, syscall.ECONNREFUSED}, {outage, nil}}, "", outage},
		"away, starts and is there": {[]answer{{0, context.DeadlineExceeded}, {outage, refused(503)}, {outage + 5*time.Second, refused(403)}, {outage + 20*time.Second, nil}}, "", outage + 20*time.Second},
		"away and refused":          {[]answer{{0, context.DeadlineExceeded}, {outage, refused(403)}, {2 * outage, nil}}, "Forbidden", outage + settlesIn},
		"comes and goes":            {[]answer{{0, refused(503)}, {outage, refused(403)}, {outage + 20*time.Second, refused(503)}, {outage + 40*time.Second, refused(403)}, {outage + time.Minute, nil}}, "", outage + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said []time.Duration
				begun, last := time.Now(), ""
				log := funcr.New(func(_, args string) { said, last = append(said, time.Since(begun)), args }, funcr.Options{})
				err := awaitAnswer(t.Context(), log, func() (err error) {
					for _, a := range c.answers {
						if time.Since(begun) >= a.from {
							err = a.err
						}
					}
					if errno := syscall.Errno(0); errors.As(err, &errno) {
						return &net.OpError{Op: "dial", Err: errno}
					}
					return err
				})
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("it comes to %v", err)
				}
				if late := time.Since(begun) - c.after; late < -2*askAway || late > 2*2*askAway {
					t.Errorf("it is known %s late", late)
				}
				if c.after == 0 {
					if len(said) > 0 {
						t.Errorf("it was said at %s", said)
					}
					return
				}
				if said[0] != 0 || len(said) < int(c.after/(sayAwayEvery+2*askAway)) || len(said) > 2+int(c.after/sayAwayEvery) {
					t.Errorf("in %s it was said at %s", c.after, said)
				}
				if strings.Contains(last, "is back") != (err == nil) {
					t.Errorf("last it said %s", last)
				}
			})
		})
	}
}

// TestAwaitAnswerEnds: who is told to end does not wait, neither for the next question nor for an answer.
func TestAwaitAnswerEnds(t *testing.T) {
	for name, takes := range map[string]time.Duration{"between questions": 0, "while it hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := awaitAnswer(ctx, funcr.New(func(string, string) {}, funcr.Options{}), func() error {
					time.Sleep(takes)
					return refused(503)
				})
				if !errors.Is(err, ctx.Err()) || time.Since(begun) != time.Minute {
					t.Errorf("after %s: %v", time.Since(begun), err)
				}
				time.Sleep(takes)
			})
		})
	}
}

// hanging answers no request.
type hanging struct{ asked int }

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked++
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// CancelRequest is what client-go looks for where a request takes too long. Its context has ended.
func (*hanging) CancelRequest(*http.Request) {}

// TestArriveAsksAgain: an API server that hangs is asked again after a while.
func TestArriveAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		api := &hanging{}
		if _, err := arrive(ctx, &rest.Config{Host: "http://api", Transport: api}, scheme(t), "0", readsOwn); !errors.Is(err, ctx.Err()) {
			t.Errorf("it ends with %v", err)
		}
		if least := int(time.Minute / (answerTakes + 2*askAway)); api.asked < least {
			t.Errorf("in a minute it is asked %d times, want %d", api.asked, least)
		}
		time.Sleep(answerTakes)
	})
}

// scheme has IngressDaemonSets.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIsAway asks what is not there, or not as it should be, as the controller does.
func TestIsAway(t *testing.T) {
	asks := func(t *testing.T, config rest.Config) error {
		config.Timeout = 200 * time.Millisecond
		c, err := client.New(&config, client.Options{Scheme: scheme(t)})
		if err != nil {
			t.Fatal(err)
		}
		return readsOwn(t.Context(), c)
	}
	answers := func(t *testing.T, code int) rest.Config {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if code == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(code)
		}))
		t.Cleanup(api.Close)
		return rest.Config{Host: api.URL}
	}
	// silent listens, and each connection is left as it is, or closed.
	silent := func(t *testing.T, closes bool) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if closes {
					c.Close()
				}
			}
		}()
		return l.Addr().String()
	}
	for name, c := range map[string]struct {
		config func(t *testing.T) rest.Config
		away   bool
	}{
		"nobody listens":        {func(t *testing.T) rest.Config { return rest.Config{Host: loopback.Closed(t).String()} }, true},
		"no handshake of TLS":   {func(t *testing.T) rest.Config { return rest.Config{Host: "https://" + silent(t, false)} }, true},
		"no answer":             {func(t *testing.T) rest.Config { return rest.Config{Host: silent(t, false)} }, true},
		"a TLS that breaks off": {func(t *testing.T) rest.Config { return rest.Config{Host: "https://" + silent(t, true)} }, true},
		"an end of file":        {func(t *testing.T) rest.Config { return rest.Config{Host: silent(t, true)} }, true},
		"429":                   {func(t *testing.T) rest.Config { return answers(t, 429) }, true},
		"500":                   {func(t *testing.T) rest.Config { return answers(t, 500) }, true},
		"503 with a pause":      {func(t *testing.T) rest.Config { return answers(t, 503) }, true},
		"504":                   {func(t *testing.T) rest.Config { return answers(t, 504) }, true},
		"401":                   {func(t *testing.T) rest.Config { return answers(t, 401) }, false},
		"403":                   {func(t *testing.T) rest.Config { return answers(t, 403) }, false},
		"404":                   {func(t *testing.T) rest.Config { return answers(t, 404) }, false},
		"an unknown authority": {func(t *testing.T) rest.Config {
			api := httptest.NewUnstartedServer(http.NotFoundHandler())
			api.Config.ErrorLog = log.New(io.Discard, "", 0)
			api.StartTLS()
			t.Cleanup(api.Close)
			return rest.Config{Host: api.URL}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := asks(t, c.config(t)); err == nil || isAway(err) != c.away {
				t.Errorf("it counts as away %t: %v", !c.away, err)
			}
		})
	}
	for text, c := range map[string]struct {
		err  error
		away bool
	}{
		"no error":                      {nil, false},
		"an end of file":                {&url.Error{Op: "Get", Err: io.EOF}, true},
		"an end in the middle":          {&url.Error{Op: "Get", Err: io.ErrUnexpectedEOF}, true},
		"a connection that is closed":   {&url.Error{Op: "Get", Err: errors.New("http: server closed idle connection")}, true},
		"a connection that is lost":     {errors.New("http2: client connection lost"), true},
		"no route":                      {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, true},
		"no network":                    {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, true},
		"a name server that is away":    {&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true},
		"a name that does not exist":    {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, false},
		"a file that is not there":      {&os.PathError{Op: "open", Err: syscall.ENOENT}, false},
		"a certificate that is refused": {&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, false},
	} {
		if isAway(c.err) != c.away {
			t.Errorf("%s counts as away %t", text, !c.away)
		}
	}
}

// lateAPI is an API server that closes each connection until it has come. It knows the kinds that a start needs, has a
// node-detacher alone, and answers no watch, so that caches are never filled.
type lateAPI struct {
	net.Listener
	come atomic.Bool
	// discovered is how often it was asked which kinds there are.
	discovered atomic.Int32
	// status is what all is answered, 0 for what is asked for.
	status int
}

func (l *lateAPI) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.come.Load() {
			return c, err
		}
		c.Close()
	}
}

func (l *lateAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.status != 0 {
		w.WriteHeader(l.status)
		return
	}
	switch group := r.URL.Path; {
	case group == "/api" || group == "/apis":
		l.discovered.Add(1)
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		json.NewEncoder(w).Encode(discovered(group == "/api"))
	case r.URL.Query().Get("limit") == "1":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"IngressDaemonSetList","metadata":{},"items":[]}`, v1alpha1.GroupVersion)
	case r.URL.Query().Has("limit"):
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"apiVersion":"apps/v1","kind":"DeploymentList","metadata":{},"items":[{"metadata":{"namespace":"kube-system","name":"other"},
			"spec":{"template":{"spec":{"containers":[{"image":"variant/node-detacher:1"}]}}}}]}`)
	default:
		<-r.Context().Done()
	}
}

// discovered are the kinds that a start needs, at /api or at /apis.
func discovered(core bool) (out apidiscoveryv2.APIGroupDiscoveryList) {
	for version, kinds := range map[schema.GroupVersion][]string{
		corev1.SchemeGroupVersion:      {"Node", "Pod", "Service", "ServiceAccount"},
		appsv1.SchemeGroupVersion:      {"ControllerRevision", "DaemonSet", "Deployment"},
		discoveryv1.SchemeGroupVersion: {"EndpointSlice"},
		rbacv1.SchemeGroupVersion:      {"RoleBinding"},
		v1alpha1.GroupVersion:          {"IngressDaemonSet", "TargetGroupAttachment"},
	} {
		if core != (version == corev1.SchemeGroupVersion) {
			continue
		}
		served := apidiscoveryv2.APIVersionDiscovery{Version: version.Version}
		for _, kind := range kinds {
			served.Resources = append(served.Resources, apidiscoveryv2.APIResourceDiscovery{
				Resource: strings.ToLower(kind) + "s", Scope: apidiscoveryv2.ScopeNamespace,
				ResponseKind: &metav1.GroupVersionKind{Group: version.Group, Version: version.Version, Kind: kind},
			})
		}
		out.Items = append(out.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: version.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{served}})
	}
	return out
}

// startAt runs the controller against an API server, with options as change leaves them, and gives where its probes are
// answered, and how it ends.
func startAt(ctx context.Context, t *testing.T, api *lateAPI, change func(*options)) (probes string, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api.Listener = l
	server := &http.Server{Handler: api}
	go server.Serve(api)
	t.Cleanup(func() { server.Close() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	named := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"api": {Server: "http://" + l.Addr().String()}},
		Contexts:       map[string]*clientcmdapi.Context{"api": {Cluster: "api"}},
		CurrentContext: "api",
	}
	if err := clientcmd.WriteToFile(named, kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	o := options{
		image: "controller", probes: free.Addr().String(), apiQPS: 200, elect: true, electionNamespace: "controllers",
		metrics:       metricsFlags{address: "0"},
		loadBalancers: loadBalancers{rate: 4, burst: 20, background: 5, groupsEvery: time.Minute, minAttached: "1"},
		proxies:       proxies{address: streamsAddress, service: streamsService},
	}
	change(&o)
	ended = make(chan error, 1)
	go func() { ended <- run(ctx, o) }()
	return "http://" + o.probes, ended
}

// probe is the status that a probe is answered, 0 for no answer.
func probe(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// TestRunWaits: a controller that starts while the API server is away lives, is not ready, and goes on when it comes. It
// ends without an error when it is told to, also while its caches are empty, and asks which kinds there are once.
func TestRunWaits(t *testing.T) {
	for name, comes := range map[string]bool{"told to end while it is away": false, "told to end after it came": true} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			api := &lateAPI{}
			probes, ended := startAt(ctx, t, api, func(*options) {})
			answered := func(path string) func() bool {
				return func() bool {
					if len(ended) > 0 {
						t.Fatalf("it ends: %v", <-ended)
					}
					return probe(probes+path) == http.StatusOK
				}
			}
			await.True(t, "it lives", answered("/healthz"))
			if status := probe(probes + "/readyz"); status != http.StatusServiceUnavailable {
				t.Errorf("while it waits, /readyz is answered %d", status)
			}
			if comes {
				api.come.Store(true)
				await.True(t, "the manager has started", answered("/readyz"))
				if asked := api.discovered.Load(); asked != 2 {
					t.Errorf("it is asked %d times for /api and /apis, want 1 each", asked)
				}
			}
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it does not end")
			}
		})
	}
}

// TestRunFails at once where waiting mends nothing, and says what.
func TestRunFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		api    *lateAPI
		change func(*options)
		says   string
	}{
		"a token that is not taken": {&lateAPI{status: http.StatusUnauthorized}, func(*options) {}, "reading IngressDaemonSets: failed to get server groups: the server has asked for the client to provide credentials"},
		"a right that is missing":   {&lateAPI{status: http.StatusForbidden}, func(*options) {}, "reading IngressDaemonSets: failed to get server groups: "},
		"another detacher":          {&lateAPI{}, func(o *options) { o.loadBalancers.cloud, o.loadBalancers.detach = "aws", true }, "Deployment kube-system/other runs node-detacher"},
		"an address that is taken":  {&lateAPI{}, func(o *options) { o.probes = taken.Addr().String() }, "answering probes: listen tcp "},
		"no namespace":              {&lateAPI{}, func(o *options) { o.electionNamespace = "" }, "finding the namespace of the controller: set --leader-election-namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			c.api.come.Store(true)
			begun := time.Now()
			_, ended := startAt(t.Context(), t, c.api, c.change)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ends with %v, want %s", err, c.says)
			}
			if took := time.Since(begun); took > settlesIn/2 {
				t.Errorf("that takes %s", took)
			}
		})
	}
}
