package aws

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Requests to STS.
var (
	assumeRole        = Action{Version: "2011-06-15", Name: "AssumeRole"}
	assumeWebIdentity = Action{Version: "2011-06-15", Name: "AssumeRoleWithWebIdentity"}
)

// issued is the answer of STS with credentials.
func issued(key string, lasts time.Duration) answer {
	return func(w http.ResponseWriter, r request) {
		result(element("Credentials", element("AccessKeyId", key)+element("SecretAccessKey", "s")+element("SessionToken", "token of "+key)+
			element("Expiration", time.Now().Add(lasts).UTC().Format(time.RFC3339)))+
			element("AssumedRoleUser", element("Arn", "arn:aws:sts::1:assumed-role/r/s")+element("AssumedRoleId", "A:s")))(w, r)
	}
}

func inventory() answer { return result(members("TargetHealthDescriptions")) }

// signedBy are the keys that signed the requests for an action, and their tokens.
func signedBy(s *server, a Action) (out []string) {
	for _, r := range s.sent(a) {
		out = append(out, r.key+" "+r.token)
	}
	return out
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCredentialsOfTheEnvironment(t *testing.T) {
	s := newServer(t)
	s.on(describeTargetHealth, inventory())
	list(t, client(t, s, Options{}), ipGroup)
	if diff := cmp.Diff([]string{"STATIC "}, signedBy(s, describeTargetHealth)); diff != "" {
		t.Error(diff)
	}
}

func TestCredentialsByWebIdentity(t *testing.T) {
	s := newServer(t)
	s.on(assumeWebIdentity, issued("WEB", time.Hour))
	s.on(describeTargetHealth, inventory())
	isolate(t)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/ids")
	c := connect(t, s, Options{})
	list(t, c, ipGroup)
	list(t, c, ipGroup)
	if diff := cmp.Diff([]string{"WEB token of WEB", "WEB token of WEB"}, signedBy(s, describeTargetHealth)); diff != "" {
		t.Error(diff)
	}
	asked := s.sent(assumeWebIdentity)
	if len(asked) != 1 || asked[0].form.Get("WebIdentityToken") != "a.b.c" || asked[0].form.Get("RoleArn") != "arn:aws:iam::1:role/ids" {
		t.Errorf("%+v: want one request for the role, with the token", asked)
	}
}

// podIdentity is the agent's endpoint. Each of its credentials has a key of its own.
func podIdentity(t *testing.T) (url string, given *atomic.Int32) {
	given = &atomic.Int32{}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "of the pod" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"AccessKeyId":"POD%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, given.Add(1), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(agent.Close)
	return agent.URL + "/v1/credentials", given
}

func TestCredentialsOfTheContainer(t *testing.T) {
	s := newServer(t)
	s.on(describeTargetHealth, inventory())
	isolate(t)
	url, given := podIdentity(t)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file(t, "of the pod"))
	c := connect(t, s, Options{})
	list(t, c, ipGroup)
	list(t, c, ipGroup)
	if diff := cmp.Diff([]string{"POD1 t", "POD1 t"}, signedBy(s, describeTargetHealth)); diff != "" || given.Load() != 1 {
		t.Errorf("%s; asked for %d times", diff, given.Load())
	}
}

// TestCredentialsAreRenewedBeforeTheirEnd has some that are nearly over each time.
func TestCredentialsAreRenewedBeforeTheirEnd(t *testing.T) {
	s := newServer(t)
	s.on(assumeWebIdentity, issued("WEB1", renewBefore-time.Second), issued("WEB2", time.Hour))
	s.on(assumeRole, issued("ROLE1", renewBefore-time.Second), issued("ROLE2", time.Hour))
	s.on(describeTargetHealth, inventory())
	isolate(t)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/ids")
	c := connect(t, s, Options{Role: Role{ARN: "arn:aws:iam::2:role/r"}})
	for range 3 {
		list(t, c, ipGroup)
	}
	if diff := cmp.Diff([]string{"WEB1 token of WEB1", "WEB2 token of WEB2"}, signedBy(s, assumeRole)); diff != "" {
		t.Error(diff)
	}
	want := []string{"ROLE1 token of ROLE1", "ROLE2 token of ROLE2", "ROLE2 token of ROLE2"}
	if diff := cmp.Diff(want, signedBy(s, describeTargetHealth)); diff != "" {
		t.Error(diff)
	}
}

// TestExpiredCredentialsAreReplaced asks for new ones when AWS does not accept those
// that should still be good.
func TestExpiredCredentialsAreReplaced(t *testing.T) {
	s := newServer(t)
	s.on(describeTargetHealth, inventory(), refused(403, "ExpiredToken", "The security token included in the request is expired"), inventory())
	s.on(assumeRole, issued("ROLE1", time.Hour), issued("ROLE2", time.Hour))
	isolate(t)
	url, _ := podIdentity(t)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file(t, "of the pod"))
	c := connect(t, s, Options{Role: Role{ARN: "arn:aws:iam::2:role/r"}})
	list(t, c, ipGroup)
	if _, err := c.List(t.Context(), ipGroup, nil); kind(err) != Expired {
		t.Errorf("%v, want Expired", err)
	}
	list(t, c, ipGroup)
	if diff := cmp.Diff([]string{"ROLE1 token of ROLE1", "ROLE1 token of ROLE1", "ROLE2 token of ROLE2"}, signedBy(s, describeTargetHealth)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"POD1 t", "POD2 t"}, signedBy(s, assumeRole)); diff != "" {
		t.Error(diff)
	}
}

func TestRole(t *testing.T) {
	for name, test := range map[string]struct {
		role             Role
		session, foreign string
	}{
		"plain": {Role{ARN: "arn:aws:iam::2:role/r"}, "ingress-daemonset-controller", ""},
		"whole": {Role{ARN: "arn:aws:iam::2:role/r", ExternalID: "x-1", Session: "prod"}, "prod", "x-1"},
	} {
		s := newServer(t)
		s.on(assumeRole, issued("ROLE", time.Hour))
		s.on(describeTargetHealth, inventory())
		s.on(describeInstanceHealth, result(members("InstanceStates")))
		c := client(t, s, Options{Role: test.role})
		list(t, c, ipGroup)
		list(t, c, classicGroup)
		asked := s.sent(assumeRole)
		if len(asked) != 1 {
			t.Fatalf("%s: the role was assumed %d times for two calls", name, len(asked))
		}
		got := []string{asked[0].key, asked[0].form.Get("RoleArn"), asked[0].form.Get("RoleSessionName"), asked[0].form.Get("ExternalId")}
		if diff := cmp.Diff([]string{"STATIC", "arn:aws:iam::2:role/r", test.session, test.foreign}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, a := range []Action{describeTargetHealth, describeInstanceHealth} {
			if diff := cmp.Diff([]string{"ROLE token of ROLE"}, signedBy(s, a)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// TestRoleThatIsDenied names what is to be granted, which is not what was called.
func TestRoleThatIsDenied(t *testing.T) {
	for message, want := range map[string]string{
		"User: arn:aws:iam::1:user/u is not authorized to perform: sts:AssumeRole on resource: arn:aws:iam::2:role/r": AssumeRole,
		"User: arn:aws:iam::1:user/u is not authorized to perform: sts:TagSession on resource: arn:aws:iam::2:role/r": "sts:TagSession",
		"no": AssumeRole,
	} {
		s := newServer(t)
		s.on(assumeRole, refused(403, "AccessDenied", message))
		c := client(t, s, Options{Role: Role{ARN: "arn:aws:iam::2:role/r"}})
		_, err := c.List(t.Context(), ipGroup, nil)
		if f := failureIn(t, err); f.Kind != Denied || f.Action != want || f.Message != message {
			t.Errorf("%+v, want Denied and %s", f, want)
		}
	}
}

func TestWebIdentityThatExpired(t *testing.T) {
	s := newServer(t)
	s.on(assumeWebIdentity, refused(400, "ExpiredTokenException", "Token expired"))
	isolate(t)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/ids")
	_, err := connect(t, s, Options{}).List(t.Context(), ipGroup, nil)
	if f := failureIn(t, err); f.Kind != Expired || f.Action != "sts:AssumeRoleWithWebIdentity" {
		t.Errorf("%+v, want Expired", f)
	}
}

func TestNoCredentials(t *testing.T) {
	s := newServer(t)
	isolate(t)
	_, err := connect(t, s, Options{}).List(t.Context(), ipGroup, nil)
	if f := failureIn(t, err); f.Kind != Unknown || f.Code != "" || f.Message == "" {
		t.Errorf("%+v, want Unknown and what is missing", f)
	}
	if n := len(s.all()); n > 0 {
		t.Errorf("%d requests were sent without credentials", n)
	}
}

func TestRegion(t *testing.T) {
	isolate(t)
	if _, err := New(t.Context(), Options{}); err == nil {
		t.Error("a client without a region")
	}
	t.Setenv("AWS_REGION", "eu-north-1")
	if c, err := New(t.Context(), Options{}); err != nil || c.v2.Options().Region != "eu-north-1" || c.classic.Options().Region != "eu-north-1" {
		t.Error(err)
	}
	if c, err := New(t.Context(), Options{Region: "eu-west-3"}); err != nil || c.v2.Options().Region != "eu-west-3" {
		t.Error(err)
	}
}

// TestEndpointOfEachService lets the SDK's variables say where each service is.
func TestEndpointOfEachService(t *testing.T) {
	v2, classic, tokens := newServer(t), newServer(t), newServer(t)
	v2.on(describeTargetHealth, inventory())
	classic.on(describeInstanceHealth, result(members("InstanceStates")))
	tokens.on(assumeRole, issued("ROLE", time.Hour))
	static(t)
	t.Setenv("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", v2.URL)
	t.Setenv("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING", classic.URL)
	t.Setenv("AWS_ENDPOINT_URL_STS", tokens.URL)
	c, err := New(t.Context(), Options{Region: "eu-west-1", Role: Role{ARN: "arn:aws:iam::2:role/r"}})
	if err != nil {
		t.Fatal(err)
	}
	list(t, c, ipGroup)
	list(t, c, classicGroup)
	if len(v2.all()) != 1 || len(classic.all()) != 1 || len(tokens.all()) != 1 {
		t.Errorf("%d, %d and %d requests, want one to each", len(v2.all()), len(classic.all()), len(tokens.all()))
	}
}

// TestRolesShareConnections: of clients as many roles that are used once and left, nothing
// stays, and their credentials are found once.
func TestRolesShareConnections(t *testing.T) {
	s := newServer(t)
	s.on(assumeWebIdentity, issued("WEB", time.Hour))
	s.on(assumeRole, issued("ROLE", time.Hour))
	s.on(describeTargetHealth, inventory())
	s.on(describeInstanceHealth, result(members("InstanceStates")))
	isolate(t)
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file(t, "a.b.c"))
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/ids")
	counted, opened := httptest.NewUnstartedServer(s.Config.Handler), atomic.Int32{}
	counted.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	counted.Start()
	t.Cleanup(counted.Close)
	found, err := New(t.Context(), Options{Region: "eu-west-1", Endpoint: counted.URL})
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for i := range 50 {
		asked := 0
		c := found.As(Role{ARN: fmt.Sprintf("arn:aws:iam::2:role/%d", i)}, func(context.Context, Call) error { asked++; return nil })
		list(t, c, ipGroup)
		list(t, c, classicGroup)
		if asked == 0 || c.Region() != "eu-west-1" {
			t.Errorf("%d requests were announced, in %s", asked, c.Region())
		}
		if i == 0 {
			before = runtime.NumGoroutine()
		}
	}
	if n := len(s.sent(assumeRole)); n != 50 {
		t.Errorf("%d roles were assumed", n)
	}
	if n := len(s.sent(assumeWebIdentity)); n != 1 {
		t.Errorf("credentials were found %d times", n)
	}
	if n := opened.Load(); n > 4 {
		t.Errorf("%d connections were opened", n)
	}
	if n := runtime.NumGoroutine(); n > before+4 {
		t.Errorf("%d goroutines, and %d after the first", n, before)
	}
}
