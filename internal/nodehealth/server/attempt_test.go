package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func portOf(address net.Addr) intstr.IntOrString {
	return intstr.FromInt(address.(*net.TCPAddr).Port)
}

func httpProbe(port intstr.IntOrString, path string, headers ...corev1.HTTPHeader) *corev1.Probe {
	return &corev1.Probe{
		TimeoutSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Port: port, Path: path, HTTPHeaders: headers,
		}},
	}
}

func closedPort(t *testing.T) intstr.IntOrString {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portOf(l.Addr())
}

func application() http.Handler {
	mux := http.NewServeMux()
	status := func(path string, status int) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	status("/ok", 204)
	status("/399", 399)
	status("/400", 400)
	status("/500", 500)
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/500", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	mux.HandleFunc("/asked", func(w http.ResponseWriter, r *http.Request) {
		asked := fmt.Sprintf("%s %s %s %s %s", r.Method, r.Host, r.RequestURI, r.Header["X-A"], r.Header["Accept"])
		if asked != "GET web.example /asked?q=1 [1 2] [*/*]" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") {
			http.Error(w, asked, http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/overridden", func(w http.ResponseWriter, r *http.Request) {
		if r.Header["Accept"] != nil || r.Header.Get("User-Agent") != "mine" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	return mux
}

func TestHTTPAttempt(t *testing.T) {
	plain, secure := httptest.NewServer(application()), httptest.NewTLSServer(application())
	defer plain.Close()
	defer secure.Close()
	plainPort, securePort := portOf(plain.Listener.Addr()), portOf(secure.Listener.Addr())
	https := func(p *corev1.Probe) *corev1.Probe { p.HTTPGet.Scheme = corev1.URISchemeHTTPS; return p }
	at := func(host string, p *corev1.Probe) *corev1.Probe { p.HTTPGet.Host = host; return p }

	for name, test := range map[string]struct {
		probe  *corev1.Probe
		passes bool
	}{
		"ok":                      {httpProbe(plainPort, "/ok"), true},
		"path without a slash":    {httpProbe(plainPort, "ok"), true},
		"other success":           {httpProbe(plainPort, "/399"), true},
		"client error":            {httpProbe(plainPort, "/400"), false},
		"server error":            {httpProbe(plainPort, "/500"), false},
		"local redirect":          {httpProbe(plainPort, "/here"), false},
		"redirect elsewhere":      {httpProbe(plainPort, "/there"), true},
		"redirect in a circle":    {httpProbe(plainPort, "/round"), false},
		"too slow":                {httpProbe(plainPort, "/slow"), false},
		"long answer":             {httpProbe(plainPort, "/long"), true},
		"nobody there":            {httpProbe(closedPort(t), "/ok"), false},
		"https":                   {https(httpProbe(securePort, "/ok")), true},
		"https to http":           {https(httpProbe(plainPort, "/ok")), false},
		"http to https":           {httpProbe(securePort, "/ok"), false},
		"host":                    {at("localhost", httpProbe(plainPort, "/ok")), true},
		"host where nobody is":    {at("127.0.0.2", httpProbe(plainPort, "/ok")), false},
		"headers and query":       {httpProbe(plainPort, "/asked?q=1", corev1.HTTPHeader{Name: "Host", Value: "web.example"}, corev1.HTTPHeader{Name: "X-A", Value: "1"}, corev1.HTTPHeader{Name: "X-A", Value: "2"}), true},
		"headers overridden":      {httpProbe(plainPort, "/overridden", corev1.HTTPHeader{Name: "Accept"}, corev1.HTTPHeader{Name: "User-Agent", Value: "mine"}), true},
		"path that is not a path": {httpProbe(plainPort, "/%zz"), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := newAttempts().attempt(t.Context(), "127.0.0.1", test.probe)
			if passed := err == nil; passed != test.passes {
				t.Errorf("the probe ended with %v", err)
			}
		})
	}
}

func TestTCPAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer l.Close()
	probe := func(host string, port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: port}}}
	}
	a := newAttempts()
	if err := a.attempt(t.Context(), "::1", probe("", portOf(l.Addr()))); err != nil {
		t.Error(err)
	}
	if err := a.attempt(t.Context(), "127.0.0.2", probe("::1", portOf(l.Addr()))); err != nil {
		t.Error(err)
	}
	if err := a.attempt(t.Context(), "::1", probe("", closedPort(t))); err == nil {
		t.Error("a closed port passes")
	}
}

func TestGRPCAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks := health.NewServer()
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, checks)
	checks.SetServingStatus("web", grpc_health_v1.HealthCheckResponse_SERVING)
	checks.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	without, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	go func() { _ = other.Serve(without) }()
	defer other.Stop()
	web := httptest.NewServer(application())
	defer web.Close()

	a := newAttempts()
	for _, test := range []struct {
		address net.Addr
		service *string
		passes  bool
	}{
		{l.Addr(), nil, true},
		{l.Addr(), new(""), true},
		{l.Addr(), new("web"), true},
		{l.Addr(), new("down"), false},
		{l.Addr(), new("unknown"), false},
		{without.Addr(), nil, false},
		{web.Listener.Addr(), nil, false},
	} {
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{
			Port: portOf(test.address).IntVal, Service: test.service,
		}}}
		if err := a.attempt(t.Context(), "127.0.0.1", probe); (err == nil) != test.passes {
			t.Errorf("%v at %v ended with %v", test.service, test.address, err)
		}
	}
}

func TestAttemptEndsInTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	grpcProbe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: portOf(l.Addr()).IntVal}}}
	for _, probe := range []*corev1.Probe{httpProbe(portOf(l.Addr()), "/"), grpcProbe} {
		begin := time.Now()
		if err := newAttempts().attempt(context.Background(), "127.0.0.1", probe); err == nil {
			t.Error("a server that says nothing passes")
		}
		if took := time.Since(begin); took < 900*time.Millisecond || took > 3*time.Second {
			t.Errorf("the probe took %v, want its timeout of a second", took)
		}
	}
}
