package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// server answers requests of the query protocol with what a test put down for them.
// It holds nothing and checks nothing: it shows what the client makes of an answer.
type server struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	answers  map[string][]answer
	requests []request
}

// request is one that came in.
type request struct {
	version, action string
	form            url.Values
	// key is the access key that signed it, token the session token sent with it.
	key, token string
}

// answer makes the answer to a request.
type answer func(http.ResponseWriter, request)

func newServer(t *testing.T) *server {
	s := &server{t: t, answers: map[string][]answer{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// on puts down answers to an action, one for each request; the last one repeats.
func (s *server) on(a Action, answers ...answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[a.Version+a.Name] = answers
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading a request: %v", err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		s.t.Errorf("request %q: %v", body, err)
	}
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	got := request{form.Get("Version"), form.Get("Action"), form, key, r.Header.Get("X-Amz-Security-Token")}
	s.next(got)(w, got)
}

func (s *server) next(r request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	left := s.answers[r.version+r.action]
	if len(left) == 0 {
		s.t.Errorf("unexpected request %s %s", r.version, r.action)
		return refused(http.StatusBadRequest, "InvalidAction", "no answer was put down")
	}
	if len(left) > 1 {
		s.answers[r.version+r.action] = left[1:]
	}
	return left[0]
}

// sent are the requests for an action so far.
func (s *server) sent(a Action) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []request
	for _, r := range s.requests {
		if r.version == a.Version && r.action == a.Name {
			out = append(out, r)
		}
	}
	return out
}

// all are the requests so far.
func (s *server) all() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// result is a success with these elements in its result.
func result(elements string) answer {
	return func(w http.ResponseWriter, r request) {
		fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></%[1]sResponse>`,
			r.action, elements)
	}
}

// refused is an error as the query protocol has it.
func refused(status int, code, message string) answer {
	return func(w http.ResponseWriter, _ request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>`, code, message)
	}
}

// raw is a body as it is.
func raw(status int, body string) answer {
	return func(w http.ResponseWriter, _ request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// lost closes the connection once the request has arrived.
func lost(http.ResponseWriter, request) { panic(http.ErrAbortHandler) }

// isolate lets nothing of this machine's AWS configuration reach a test.
func isolate(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	nothing := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", nothing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// static puts credentials into the environment.
func static(t *testing.T) {
	t.Helper()
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "STATIC")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
}

// client has static credentials.
func client(t *testing.T, s *server, o Options) *Client {
	t.Helper()
	static(t)
	return connect(t, s, o)
}

func connect(t *testing.T, s *server, o Options) *Client {
	t.Helper()
	o.Region, o.Endpoint = "eu-west-1", s.URL
	c, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Groups that the tests of targets are about.
var (
	ipGroup       = targets.Group{ID: "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/web/2", Balancer: targets.Network, Type: targets.IP, Port: 80}
	instanceGroup = targets.Group{ID: "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/nodes/3", Balancer: targets.Application, Type: targets.Instance, Port: 80}
	classicGroup  = targets.Group{ID: "old", Name: "old", Balancer: targets.Classic, Type: targets.Instance, Port: 30080}
)

// list calls List without a deadline.
func list(t *testing.T, c *Client, g targets.Group, only ...targets.Target) map[targets.Target]targets.Health {
	t.Helper()
	found, err := c.List(context.Background(), g, only)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
