package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	contract "github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/selfsigned"
)

var (
	secret  = []byte(strings.Repeat("s", contract.MinSecret))
	request = Request{
		ID: "4f9", Action: Detach, Reason: "it is cordoned", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Node: Node{Name: "n1", Addresses: []Address{{Type: "InternalIP", Address: "192.0.2.1"}}},
	}
)

// proxied is how often the proxy of the environment was asked; the environment is
// read once in a process.
var proxied atomic.Int64

func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied.Add(1)
		fmt.Fprint(w, "by way of the proxy to ", r.URL)
	}))
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		os.Setenv(name, proxy.URL)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

// serve gives a client of a receiver that answers so.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return client(t, Options{URL: server.URL + "/detach", Secret: secret})
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write answers with a status, a body and headers by key and value.
func write(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestAnswers(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
	}
	date := time.Now().UTC().Add(-time.Hour)
	at := func(after time.Duration) string { return date.Add(after).Format(http.TimeFormat) }
	again := func(after time.Duration) Answer { return Answer{RetryAfter: after} }
	for name, test := range map[string]struct {
		receiver http.HandlerFunc
		want     Answer
	}{
		"stopped":                {write(200, ""), Answer{Done: true}},
		"stopped, with a word":   {write(200, "0 sessions\n"), Answer{Done: true, Message: "0 sessions"}},
		"stopped, Retry-After":   {write(200, "", "Retry-After", "7"), Answer{Done: true}},
		"not yet":                {write(202, "3\tsessions\r\nare left"), Answer{RetryAfter: 5 * time.Second, Message: "3 sessions are left"}},
		"seconds":                {write(202, "", "Retry-After", "7"), again(7 * time.Second)},
		"no seconds":             {write(202, "", "Retry-After", "0"), again(time.Second)},
		"fewer than none":        {write(202, "", "Retry-After", "-7"), again(5 * time.Second)},
		"too many seconds":       {write(202, "", "Retry-After", "301"), again(5 * time.Minute)},
		"far too many seconds":   {write(202, "", "Retry-After", strings.Repeat("9", 40)), again(5 * time.Minute)},
		"words":                  {write(202, "", "Retry-After", "soon"), again(5 * time.Second)},
		"a date":                 {write(202, "", "Date", at(0), "Retry-After", at(30*time.Second)), again(30 * time.Second)},
		"a date that is over":    {write(202, "", "Date", at(0), "Retry-After", at(-time.Minute)), again(time.Second)},
		"a date in a year":       {write(202, "", "Date", at(0), "Retry-After", at(365*24*time.Hour)), again(5 * time.Minute)},
		"a date, and no Date":    {write(202, "", "Date", "", "Retry-After", at(0)), again(time.Second)},
		"what is not to be seen": {write(200, "a\x00b\x1b[31mc\u202ed\xffe"), Answer{Done: true, Message: "a b [31mc de"}},
		"a long word":            {write(200, strings.Repeat("ä", 400)), Answer{Done: true, Message: strings.Repeat("ä", 256)}},
		"a rune at the edge":     {write(200, "x"+strings.Repeat("ä", 400)), Answer{Done: true, Message: "x" + strings.Repeat("ä", 255)}},
		"more than is read":      {write(200, strings.Repeat("x", 10<<20)), Answer{Done: true, Message: strings.Repeat("x", 512)}},
		"without an end":         {endless, Answer{Done: true, Message: strings.Repeat("x", 512)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serve(t, test.receiver).Ask(t.Context(), request)
			if err != nil || got != test.want {
				t.Errorf("%v\n%s", err, cmp.Diff(test.want, got))
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "stopped")
	}
	closed := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
	}
	for want, receiver := range map[string]http.HandlerFunc{
		"to detach node n1: it answered 204 No Content":                      write(204, ""),
		"it answered 404 Not Found: add server n1":                           write(404, "add server n1\n"),
		"it answered 401 Unauthorized":                                       write(401, ""),
		"it answered 500 Internal Server Error: " + strings.Repeat("x", 512): write(500, strings.Repeat("x", 1<<20)),
		`302 Found to "/elsewhere", and redirects are not followed`:          write(302, "", "Location", "/elsewhere"),
		`308 Permanent Redirect to "https://other.example/"`:                 write(308, "", "Location", "https://other.example/"),
		`201 Created: made`: write(201, "made", "Location", "/1"),
		`with a web page, which no receiver answers with`: write(200, "<html>Welcome!", "Content-Type", "text/html; charset=utf-8"),
		`202 Accepted with a web page`:                    write(202, "<!DOCTYPE html>Log in"),
		"reading the answer: unexpected EOF":              cut,
		"EOF":                                             closed,
		"server response headers exceeded":                write(200, "", "X-Long", strings.Repeat("x", 100<<10)),
	} {
		answer, err := serve(t, receiver).Ask(t.Context(), request)
		if err == nil || !strings.Contains(err.Error(), want) || answer != (Answer{}) {
			t.Errorf("%+v, %v, want %q", answer, err, want)
		}
	}
}

// TestRedirectsAreNotFollowed also where the other place would say it has stopped.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		if answer, err := serve(t, write(status, "", "Location", other.URL)).Ask(t.Context(), request); err == nil {
			t.Errorf("%d: %+v", status, answer)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// TestWhatIsAsked is what a receiver gets: the same request each time, which it can
// verify by the bytes of the body.
func TestWhatIsAsked(t *testing.T) {
	var keys []string
	connections := map[string]bool{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var got Request
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		want := request
		want.Action = got.Action
		if diff := cmp.Diff(want, got); diff != "" || r.Method != "POST" || r.URL.Path != "/detach" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s\n%s", r.Method, r.URL, r.Header, diff)
		}
		signature := r.Header.Get(contract.SignatureHeader)
		if err := contract.Verify(secret, signature, body, time.Now()); err != nil {
			t.Error(err)
		}
		if contract.Verify(secret, signature, append(body, ' '), time.Now()) == nil {
			t.Error("the signature is not of the body")
		}
		if contract.Verify(secret, signature, body, time.Now().Add(contract.Tolerance+time.Minute)) == nil {
			t.Error("the signature may be replayed")
		}
		connections[r.RemoteAddr] = true
		keys = append(keys, r.Header.Get("Idempotency-Key"))
	})
	attach := request
	attach.Action = Attach
	for _, r := range []Request{request, request, attach} {
		if _, err := c.Ask(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"4f9:detach", "4f9:detach", "4f9:attach"}; !cmp.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if len(connections) != 3 {
		t.Errorf("3 questions came on %d connections", len(connections))
	}
}

func TestImpossibleRequestsAreNotSent(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	r := request
	r.ID = ""
	if _, err := c.Ask(t.Context(), r); err == nil || !strings.Contains(err.Error(), "1 to 128") {
		t.Error(err)
	}
}

// TestSlowAnswers ends questions after the timeout, wherever the receiver stops, and
// lets the receiver know.
func TestSlowAnswers(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"half an answer": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "stop")
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begin(w)
				<-r.Context().Done()
				close(told)
			}))
			t.Cleanup(server.Close)
			c := client(t, Options{URL: server.URL, Secret: secret, Timeout: 100 * time.Millisecond})
			answer, err := c.Ask(t.Context(), request)
			if !errors.Is(err, context.DeadlineExceeded) || answer != (Answer{}) {
				t.Errorf("%+v, %v", answer, err)
			}
			<-told
		})
	}
}

func TestAskingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Ask(ctx, request); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c := client(t, Options{URL: "http://" + listener.Addr().String() + "/?token=hidden", Secret: secret})
	if _, err := c.Ask(t.Context(), request); err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}

func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(write(200, ""))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	known := client(t, Options{URL: server.URL, Secret: secret, RootCAs: roots})
	if answer, err := known.Ask(t.Context(), request); err != nil || !answer.Done {
		t.Errorf("%+v, %v", answer, err)
	}
	unknown := client(t, Options{URL: server.URL, Secret: secret})
	if _, err := unknown.Ask(t.Context(), request); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// authority writes the certificate that a server shows into a file.
func authority(t *testing.T, file string, server *httptest.Server) {
	t.Helper()
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAuthorityIsReadAgain goes on where a receiver's certificate was renewed by another
// authority, and tells where the file cannot be read.
func TestAuthorityIsReadAgain(t *testing.T) {
	before, after := httptest.NewTLSServer(write(200, "")), httptest.NewUnstartedServer(write(200, ""))
	after.TLS = &tls.Config{Certificates: []tls.Certificate{selfsigned.For(t, "127.0.0.1").Certificate}}
	after.StartTLS()
	t.Cleanup(before.Close)
	t.Cleanup(after.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	authority(t, file, before)
	c := client(t, Options{URL: before.URL, Secret: secret, CAFile: file})
	ask := func(server *httptest.Server) error {
		c.url = server.URL
		_, err := c.Ask(t.Context(), request)
		return err
	}
	if err := ask(before); err != nil {
		t.Error(err)
	}
	if err := ask(after); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	authority(t, file, after)
	if err := ask(after); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(after); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Error(err)
	}
	if _, err := New(Options{URL: before.URL, Secret: secret, CAFile: file}); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Error(err)
	}
}

func TestProxyOfTheEnvironment(t *testing.T) {
	before := proxied.Load()
	c := client(t, Options{URL: "http://lb.example:8080/x", Secret: secret, AllowHTTP: true})
	answer, err := c.Ask(t.Context(), request)
	if err != nil || answer.Message != "by way of the proxy to http://lb.example:8080/x" || proxied.Load() != before+1 {
		t.Errorf("%+v, %v", answer, err)
	}
}
