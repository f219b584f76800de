package analysis

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// write makes a file of a test.
func write(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestProviders asks a server as the operator's file says, of which the check knows the name
// alone; and reads anew what is renewed.
func TestProviders(t *testing.T) {
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		if r.URL.Path != "/prometheus/api/v1/query" {
			t.Errorf("asked at %s", r.URL.Path)
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"0"]}}`)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := write(t, filepath.Join(dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	token := write(t, filepath.Join(dir, "token"), "first\n")
	password := write(t, filepath.Join(dir, "password"), "open sesame\n")
	m := measuring(t, nil)
	m.ProvidersFile = filepath.Join(dir, "providers.yaml")
	write(t, m.ProvidersFile, fmt.Sprintf(`
providers:
- {name: mimir, address: '%s/prometheus', caFile: %q, bearerTokenFile: %q, headers: {x-scope-orgid: team}}
- {name: basic, address: '%s/prometheus', caFile: %q, basicAuth: {username: ids, passwordFile: %q}}
- {name: open, address: '%s/prometheus'}
- {name: lost, address: '%s/prometheus', caFile: %q}
- {name: silent, address: '%s/prometheus', bearerTokenFile: %q}
- {name: secretless, address: '%s/prometheus', basicAuth: {username: ids, passwordFile: %q}}
`, server.URL, ca, token, server.URL, ca, password, server.URL, server.URL, filepath.Join(dir, "none"), server.URL, filepath.Join(dir, "none"), server.URL, filepath.Join(dir, "none")))
	ask := func(name string) error {
		return m.Measure(context.Background(), v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Provider: name, Query: "up", Success: "== 0"}}, rollout.Wave{})
	}
	for _, want := range []string{"first", "second"} {
		write(t, token, want+"\n")
		if err := ask("mimir"); err != nil || got.Get("Authorization") != "Bearer "+want || got.Get("X-Scope-OrgID") != "team" {
			t.Errorf("%v, %v", err, got)
		}
	}
	if err := ask("basic"); err != nil || got.Get("Authorization") != "Basic aWRzOm9wZW4gc2VzYW1l" {
		t.Errorf("%v, %v", err, got)
	}
	for name, want := range map[string]string{
		"open":       "provider open: its certificate is not trusted",
		"lost":       "provider lost: its caFile cannot be read",
		"silent":     "provider silent: its bearerTokenFile cannot be read",
		"secretless": "provider secretless: its passwordFile cannot be read",
		"none":       "there is no provider none in the operator's file",
	} {
		if err := ask(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	write(t, m.ProvidersFile, "providers: 7")
	if err := ask("mimir"); err == nil || err.Error() != "the operator's file of providers cannot be read" {
		t.Error(err)
	}
	m.ProvidersFile = ""
	if err := ask("mimir"); err == nil || !strings.Contains(err.Error(), "runs without --analysis-providers") {
		t.Error(err)
	}
}

// TestProvidersAreNotTold keeps what a provider says short, and its address out of it.
func TestProvidersAreNotTold(t *testing.T) {
	answers := map[string]struct {
		status     int
		body, want string
	}{
		"a query that is refused": {400, `{"status":"error","errorType":"bad_data","error":"no such query at SERVER ` + strings.Repeat("x", 1000) + `"}`, "provider mimir: bad_data: no such query at ... xxx"},
		"a fault within":          {422, `{"status":"error","errorType":"execution","error":"dial tcp 192.0.2.1:9095: refused"}`, "provider mimir: it answers execution"},
		"a status":                {503, "upstream SERVER is away", "provider mimir: server_error: server error: 503"},
		"a status of ours":        {401, "who are you", "provider mimir: client_error: client error: 401"},
		"a redirect":              {302, "", "provider mimir: bad_response: bad response code 302"},
		"no JSON":                 {200, "SERVER", "provider mimir: it answers bad_response"},
		"too much":                {200, strings.Repeat(" ", longestBody+1), "provider mimir: the answer is longer than 1048576 bytes"},
		"a value":                 {200, `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"0.123456789"]}}`, "the value is 0.123456789 and should be == 0"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.FormValue("query")]
		w.WriteHeader(answer.status)
		fmt.Fprint(w, strings.ReplaceAll(answer.body, "SERVER", r.Host))
	}))
	t.Cleanup(server.Close)
	at, _ := url.Parse(server.URL)
	m := measuring(t, nil)
	m.ProvidersFile = write(t, filepath.Join(t.TempDir(), "providers.yaml"), "providers: [{name: mimir, address: '"+server.URL+"'}, {name: nowhere, address: 'http://nowhere.invalid'}]")
	ask := func(name, query string) error {
		return m.Measure(context.Background(), v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Provider: name, Query: query, Success: "== 0"}}, rollout.Wave{})
	}
	told := func(name string, err error, want string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 300 || strings.Contains(err.Error(), at.Hostname()) || strings.Contains(err.Error(), "invalid") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for name, answer := range answers {
		told(name, ask("mimir", name), answer.want)
	}
	server.Close()
	told("nobody there", ask("mimir", "up"), "provider mimir: it cannot be reached")
	if err := ask("nowhere", "up"); err == nil || strings.Contains(err.Error(), "invalid") {
		t.Error(err)
	}
}

// TestProvidersAreChecked says what is wrong with the file.
func TestProvidersAreChecked(t *testing.T) {
	for content, want := range map[string]string{
		"": "",
		"providers: [{name: a, address: 'http://localhost:8005'}]":                                                   "",
		"providers: [{address: 'http://a'}]":                                                                         "it has no name",
		"providers: [{name: a, address: 'http://a'}, {name: a, address: 'http://b'}]":                                `provider "a": it is there twice`,
		"providers: [{name: a, address: 'a:9090'}]":                                                                  "its address must be a URL",
		"providers: [{name: a, address: 'ftp://a'}]":                                                                 "its address must be a URL",
		"providers: [{name: a, address: 'http://me:hidden@a'}]":                                                      "its address holds a user",
		"providers: [{name: a, address: 'http://a', bearerTokenFile: t, basicAuth: {username: u, passwordFile: p}}]": "both basicAuth and bearerTokenFile",
		"providers: [{name: a, address: 'http://a', basicAuth: {username: u}}]":                                      "needs username and passwordFile",
		"providers: [{name: a, address: 'http://a', token: t}]":                                                      "unknown field",
		"- a": "cannot unmarshal",
	} {
		_, err := parseProviders([]byte(content))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}

// TestDocumentedProviders takes the file that the guide shows.
func TestDocumentedProviders(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/analysis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\nproviders:\n")
	block, _, found := strings.Cut(block, "```")
	all, err := parseProviders([]byte("providers:\n" + block))
	if err != nil || !found || len(all) != 3 {
		t.Errorf("%d are read: %v", len(all), err)
	}
}
