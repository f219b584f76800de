package analysis

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	prometheusapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
)

// answering is a server without a network.
type answering struct {
	status int
	body   string
}

func (a answering) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: request}, nil
}

// FuzzPrometheusAnswer reads any answer as values or as an error, and tells of it no more
// than is shown.
func FuzzPrometheusAnswer(f *testing.F) {
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `<html>`, `{"status":"success","data":null}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1767225600,"0.5"]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,"0.1"]},{"value":null},null]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1767225600,{"count":"1","sum":"2","buckets":[]}]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,"0.5"]]}]}}`,
		`{"status":"error","errorType":"bad_data","error":"no such query at https://mimir.example.com/prometheus"}`,
	} {
		f.Add(200, body)
		f.Add(400, body)
	}
	p := &provider{Name: "mimir", Address: "https://mimir.example.com/prometheus"}
	f.Fuzz(func(t *testing.T, status int, body string) {
		c := &http.Client{Transport: boundedTransport{answering{status, body}}}
		api, err := prometheusapi.NewClient(prometheusapi.Config{Address: p.Address, Client: c})
		if err != nil {
			t.Fatal(err)
		}
		result, _, _, err := prometheus.NewAPI(api).Query(t.Context(), "up", itsOwnNow)
		if err != nil {
			if told := p.told(err).Error(); len(told) > 300 || strings.Contains(told, "mimir.example.com") {
				t.Errorf("it is told: %s", told)
			}
			return
		}
		values, err := valuesOf(result)
		if err != nil && len(values) > 0 {
			t.Errorf("both %v and %v", values, err)
		}
	})
}

// FuzzCondition has any text as a condition, which gives an answer in its time or an error.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{"< 0.01", "!= 0", "value < 1 || value > 100", "value", "[1,2].all(a, value > 0)", "value.matches('a')", "'a' + string(value) == 'a1'", "duration('1s') > duration('2s')"} {
		f.Add(text, 1.0)
	}
	f.Fuzz(func(t *testing.T, text string, value float64) {
		if len(text) > 256 {
			return
		}
		passes, err := condition(text)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := passes(ctx, value); ctx.Err() != nil {
			t.Errorf("%q of %g ends with its deadline: %v", text, value, err)
		}
	})
}

// FuzzProviders reads any file, and what it takes can be asked.
func FuzzProviders(f *testing.F) {
	for _, content := range []string{
		"", "providers:", "providers: []", "- a", "providers: [{name: a, address: 'http://a'}]",
		"providers: [{name: a, address: 'https://a:b@c/d', headers: {X-A: b}, basicAuth: {username: u, passwordFile: p}}]",
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		all, err := parseProviders([]byte(content))
		if err != nil {
			return
		}
		for _, p := range all {
			if _, err := http.NewRequest(http.MethodPost, p.Address, nil); err != nil || p.Name == "" {
				t.Errorf("%+v is taken: %v", p, err)
			}
		}
	})
}

// FuzzHost reads any entry of --analysis-hosts, which permits nothing special unless it is it.
func FuzzHost(f *testing.F) {
	for _, entry := range []string{"a", "*.example.com", "192.0.2.0/24:80", "[2001:db8::]:9090", "::/0", "0.0.0.0/0", "", "[", "a:", ":", "%", "fe80::1%eth0"} {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		hosts, err := ParseHosts([]string{entry})
		if err != nil {
			return
		}
		prefix := hosts[0].prefix
		if loopback := netip.MustParseAddr("127.0.0.1"); hosts.permit(loopback.String(), 80) && (prefix.Bits() < 8 || !prefix.Addr().IsLoopback()) {
			t.Errorf("%q permits loopback", entry)
		}
	})
}

// FuzzQuery fills in what stands for the wave, whatever its nodes are called.
func FuzzQuery(f *testing.F) {
	f.Add(`up{node=~"$(NODES)"}`, "a.b", "10.0.0.1")
	f.Add(`$(NODES)$(ADDRESSES)$(`, "$(NAME)", "")
	f.Fuzz(func(t *testing.T, text, node, address string) {
		got, err := query(text, rollout.Wave{Nodes: []rollout.WaveNode{{Name: node, Address: address}}})
		if len(got) > longestQuery || !strings.Contains(text, "$(") && len(text) <= longestQuery && (got != text || err != nil) {
			t.Errorf("%q becomes %q: %v", text, got, err)
		}
	})
}
