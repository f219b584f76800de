package analysis

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waveOf is a wave of one node, at a server's address.
func waveOf(t *testing.T, server *httptest.Server) (rollout.Wave, int32) {
	t.Helper()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(at.Host)
	n, _ := strconv.Atoi(port)
	return rollout.Wave{Namespace: "ns", Name: "proxy", Revision: "r2", Nodes: []rollout.WaveNode{{Name: "n1", Address: host, Ports: []int32{int32(n)}}}, Ports: []int32{int32(n)}}, int32(n)
}

// onThisMachine makes measurements of servers of a test.
func onThisMachine(t *testing.T) *Measurer {
	t.Helper()
	return measuring(t, []string{"127.0.0.0/8"})
}

// measuring makes measurements in a cluster of these objects.
func measuring(t *testing.T, hosts []string, objects ...client.Object) *Measurer {
	t.Helper()
	permitted, err := ParseHosts(hosts)
	if err != nil {
		t.Fatal(err)
	}
	api := apiserver.New(scheme.Scheme)
	for _, object := range objects {
		api.Put(object)
	}
	c := &apiserver.Client{Server: api}
	return New(Options{Services: c, Live: c, Hosts: permitted})
}

func expect(t *testing.T, check v1alpha1.AnalysisCheck, wave rollout.Wave, want string) {
	t.Helper()
	err := onThisMachine(t).Measure(context.Background(), check, wave)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%+v: %v, want %q", check, err, want)
	}
}

func TestHTTP(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "shop.example":
			w.WriteHeader(http.StatusTeapot)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/broken", http.StatusFound)
		case r.URL.Path == "/broken" || r.URL.Query().Get("fail") != "":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		}
	})
	for _, server := range []*httptest.Server{httptest.NewServer(handler), httptest.NewTLSServer(handler)} {
		t.Cleanup(server.Close)
		wave, port := waveOf(t, server)
		for want, check := range map[string]v1alpha1.HTTPCheck{
			"": {},
			"node n1 answered /broken with status 500": {Path: "/broken"},
			"/?fail=yes with status 500":               {Path: "/?fail=yes"},
			"answered / with status 418":               {Host: "shop.example"},
			"answered / with status 200":               {Statuses: []int32{204}},
			"it took longer than 1s":                   {Path: "/slow"},
		} {
			check.Port = port
			if server.TLS != nil {
				check.Scheme = "HTTPS"
			}
			expect(t, v1alpha1.AnalysisCheck{HTTP: &check, TimeoutSeconds: new(int32(1))}, wave, want)
		}
		expect(t, v1alpha1.AnalysisCheck{HTTP: &v1alpha1.HTTPCheck{Port: port, Path: "/moved", Scheme: map[bool]string{true: "HTTPS"}[server.TLS != nil]}}, wave, "")
	}
}

func TestHTTPAsksEveryNode(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	wave, port := waveOf(t, server)
	wave.Nodes = append(wave.Nodes, rollout.WaveNode{Name: "n0", Address: wave.Nodes[0].Address}, rollout.WaveNode{Name: "n2", Address: "127.0.0.2"})
	expect(t, v1alpha1.AnalysisCheck{HTTP: &v1alpha1.HTTPCheck{Port: port}}, wave, "node n0 answered / with status 404, and 2 more")
}

// TestHTTPAsksSoManyNodesAtATime, and has no more goroutines than these need. None is answered
// until that many are asked.
func TestHTTPAsksSoManyNodesAtATime(t *testing.T) {
	const nodes, atATime = 2000, 32
	var mu sync.Mutex
	underWay, most, goroutines, asked, full := 0, 0, 0, 0, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		underWay++
		most, goroutines = max(most, underWay), max(goroutines, runtime.NumGoroutine())
		until := full
		if asked%atATime == 0 || asked == nodes {
			close(full)
			full = make(chan struct{})
		}
		mu.Unlock()
		select {
		case <-until:
		case <-r.Context().Done():
		}
		mu.Lock()
		underWay--
		mu.Unlock()
	}))
	t.Cleanup(server.Close)
	wave, port := waveOf(t, server)
	for len(wave.Nodes) < nodes {
		wave.Nodes = append(wave.Nodes, wave.Nodes[0])
	}
	expect(t, v1alpha1.AnalysisCheck{HTTP: &v1alpha1.HTTPCheck{Port: port}, TimeoutSeconds: new(int32(60))}, wave, "")
	if asked != nodes || most != atATime || goroutines > 1000 {
		t.Errorf("%d of %d were asked, %d at a time, with %d goroutines", asked, len(wave.Nodes), most, goroutines)
	}
}

func TestWebhook(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Namespace, Name, Revision string
			Nodes                     []string
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || fmt.Sprint(body) != "{ns proxy r2 [n1]}" || r.Method != "POST" {
			t.Errorf("%s %+v: %v", r.Method, body, err)
		}
		if r.URL.Path == "/no" {
			http.Error(w, "secret", http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	wave, _ := waveOf(t, server)
	expect(t, v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: server.URL}}, wave, "")
	expect(t, v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: server.URL + "/no"}}, wave, "the webhook answered with status 403")
	server.Close()
	expect(t, v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: server.URL}}, wave, "connection refused")
}

// TestPrometheus reads answers as a Prometheus server gives them; that a real one
// gives such is shown on the real cluster.
func TestPrometheus(t *testing.T) {
	answers := map[string]string{
		"scalar": `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"0.5"]}}`,
		"vector": `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"0.1"]},{"metric":{},"value":[1767225600,"0.9"]}]}}`,
		"empty":  `{"status":"success","data":{"resultType":"vector","result":[]}}`,
		"nan":    `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"NaN"]}}`,
		"matrix": `{"status":"success","data":{"resultType":"matrix","result":[]}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		if at := r.FormValue("time"); at != "" {
			t.Errorf("it is asked as of %s, by another clock than its own", at)
		}
		if answers[query] == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"status":"error","errorType":"bad_data","error":"no such query: %s"}`, query)
			return
		}
		fmt.Fprint(w, answers[query])
	}))
	t.Cleanup(server.Close)
	wave, _ := waveOf(t, server)
	for _, c := range []struct{ query, success, empty, want string }{
		{"scalar", "< 1", "", ""},
		{"scalar", "<= 0.5", "", ""},
		{"scalar", "== 5e-1", "", ""},
		{"scalar", "!=0", "", ""},
		{"scalar", "> -1", "", ""},
		{"scalar", ">= 0.51", "", "the value is 0.5 and should be >= 0.51"},
		{"vector", "< 1", "", ""},
		{"vector", "< 0.5", "", "the value is 0.9"},
		{"empty", "< 1", "", "the query has no result"},
		{"empty", "< 1", "Pass", ""},
		{"nan", "< 1", "", "the value is NaN"},
		{"matrix", "< 1", "", "the query gives a matrix"},
		{"nonsense", "< 1", "", "no such query"},
		{"vector", "value < 0.5 || value > 0.8", "", ""},
		{"vector", "value > 0.05 && value < 0.8", "", "the value is 0.9 and should be value > 0.05 && value < 0.8"},
		{"nan", "value < 1", "", "the value is NaN"},
		{"scalar", "about 1", "", "is neither a comparison"},
	} {
		expect(t, v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Address: server.URL, Query: c.query, Success: c.success, Empty: c.empty}}, wave, c.want)
	}
}

func TestQueryNamesTheWave(t *testing.T) {
	wave := rollout.Wave{Namespace: "ns", Name: "proxy", Revision: "r2", Nodes: []rollout.WaveNode{{Name: "a.b", Address: "10.0.0.1"}, {Name: "c", Address: "10.0.0.2"}}}
	got, err := query(`up{node=~"$(NODES)",ip=~"$(ADDRESSES)",x="$(NAMESPACE)/$(NAME)/$(REVISION)"}`, wave)
	if want := `up{node=~"a\\.b|c",ip=~"10\\.0\\.0\\.1|10\\.0\\.0\\.2",x="ns/proxy/r2"}`; got != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestQueryIsBounded refuses one of 4 KiB that names the nodes of a large wave 512 times, and
// takes neither memory for it nor asks it.
func TestQueryIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Error("it is asked") }))
	t.Cleanup(server.Close)
	wave := rollout.Wave{Namespace: "ns", Name: "proxy", Revision: "r2"}
	for i := range 1000 {
		wave.Nodes = append(wave.Nodes, rollout.WaveNode{Name: fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i/256, i%256), Address: "10.0.0.1"})
	}
	check := v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Address: server.URL, Query: strings.Repeat("$(NODES)", 512), Success: "< 1"}}
	m := onThisMachine(t)
	const want = "name $(NODES) and $(ADDRESSES) less often, or update fewer nodes at a time"
	for name, err := range map[string]error{"the check": Check(check, wave), "its measurement": m.Measure(t.Context(), check, wave)} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := allocated(func() { _, _ = query(check.Prometheus.Query, wave) }); took > 4<<20 {
		t.Errorf("it took %d MiB", took>>20)
	}
	check.Prometheus.Query = strings.Repeat("$(NODES)", 5)
	if got, err := query(check.Prometheus.Query, wave); err != nil || len(got) < 200<<10 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := Check(check, rollout.Wave{}); err != nil {
		t.Error(err)
	}
}

// allocated is how many bytes were, at least, while something was done.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestNothingToMeasure(t *testing.T) {
	expect(t, v1alpha1.AnalysisCheck{}, rollout.Wave{}, "none of http, prometheus and webhook")
}
