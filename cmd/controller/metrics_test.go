package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/loopback"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviewer is an API server that knows two tokens, one of which may read the metrics. It counts
// what it is asked.
func reviewer(t *testing.T) (_ *httptest.Server, asked *atomic.Int32) {
	asked = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			review := &authenticationv1.TokenReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			user, known := strings.CutPrefix(review.Spec.Token, "token-of-")
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: user}}
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			review := &authorizationv1.SubjectAccessReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			asked := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && asked != nil && asked.Path == "/metrics" && asked.Verb == "get"
			answer = review
		default:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s, asked
}

// served is the URL of metrics as the flags want them, while the test runs.
func served(t *testing.T, o metricsFlags) (url string, asked *atomic.Int32) {
	t.Helper()
	port := loopback.Held(t)
	port.Free(t)
	o.address = fmt.Sprintf("127.0.0.1:%d", port.Number)
	settings := o.options()
	settings.ListenConfig.Control = func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}
	api, asked := reviewer(t)
	s, err := server.NewServer(settings, &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	scheme := "http"
	if o.secure {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/metrics", scheme, o.address), asked
}

// TestWhoMayReadMetrics: everybody, or where that is asked for those whose token may.
func TestWhoMayReadMetrics(t *testing.T) {
	open, none := served(t, metricsFlags{})
	secured, asked := served(t, metricsFlags{secure: true})
	for name, c := range map[string]struct {
		url, token string
		want       int
	}{
		"open":                {open, "", http.StatusOK},
		"secured, no token":   {secured, "", http.StatusUnauthorized},
		"secured, no user's":  {secured, "guessed", http.StatusUnauthorized},
		"secured, a user's":   {secured, "token-of-tenant", http.StatusForbidden},
		"secured, may read":   {secured, "token-of-prometheus", http.StatusOK},
		"secured, plain HTTP": {strings.Replace(secured, "https", "http", 1), "token-of-prometheus", http.StatusBadRequest},
	} {
		if got, body := scrape(t, c.url, c.token); got != c.want || got == http.StatusOK != strings.Contains(body, "go_goroutines") {
			t.Errorf("%s: %d, want %d\n%s", name, got, c.want, body)
		}
	}
	before := asked.Load()
	for range 3 {
		if got, _ := scrape(t, secured, "token-of-prometheus"); got != http.StatusOK {
			t.Errorf("once more: %d", got)
		}
	}
	if n := asked.Load(); n != before || before != 5 || none.Load() > 0 {
		t.Errorf("the API server was asked %d times, then %d, and %d where nothing is to be asked", before, n-before, none.Load())
	}
}

// TestReviewsAreFew: those without a token that is good for anything are not asked about without
// end, and one that was permitted is let through all the same.
func TestReviewsAreFew(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		http.Error(w, "broken", http.StatusTeapot)
	}))
	t.Cleanup(api.Close)
	filter, err := byToken(&rest.Config{Host: api.URL}, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token string) int {
		request, answer := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
		request.Header.Set("Authorization", "Bearer "+token)
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	answers := make(chan int, reviewsAtOnce)
	for i := range reviewsAtOnce {
		go func() { answers <- ask(fmt.Sprint(i)) }()
	}
	for range reviewsAtOnce {
		<-arrived
	}
	if got := ask("one more"); got != http.StatusTooManyRequests {
		t.Errorf("one more is answered %d", got)
	}
	close(release)
	for range reviewsAtOnce {
		if got := <-answers; got != http.StatusInternalServerError {
			t.Errorf("where the API server fails: %d", got)
		}
	}
}

// TestStrangersShutNobodyOut: while others are asked about who have no token that is good for anything,
// one that was permitted before is asked about again.
func TestStrangersShutNobodyOut(t *testing.T) {
	r := &reviews{asking: make(chan struct{}), again: make(chan struct{}, 1), permitted: map[[sha256.Size]byte]time.Time{}}
	api, _ := reviewer(t)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	r.tokens, r.access = client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews()
	for token, want := range map[string]int{"token-of-prometheus": http.StatusOK, "guessed": http.StatusTooManyRequests} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		if want == http.StatusOK {
			// Its time is over.
			r.permitted[sha256.Sum256([]byte("get /metrics "+token))] = time.Now().Add(-time.Second)
		}
		if got, err := r.judge(request); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", token, got, err, want)
		}
	}
}

// scrape asks until somebody listens.
func scrape(t *testing.T, url, token string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	var response *http.Response
	var refused error
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		response, refused = client.Do(request)
		return refused == nil, nil
	})
	if err != nil {
		t.Fatal(refused)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestMetricsAreChecked says which flag to change.
func TestMetricsAreChecked(t *testing.T) {
	if err := (&metricsFlags{address: "0", secure: true}).check(); err == nil || !strings.Contains(err.Error(), "--metrics-secure") {
		t.Error(err)
	}
	for _, o := range []metricsFlags{{address: "0"}, {address: ":8080", secure: true}} {
		if err := o.check(); err != nil {
			t.Error(err)
		}
	}
}
