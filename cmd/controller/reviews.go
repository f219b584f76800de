package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviews asks the API server whose a token is, and what it permits. controller-runtime's own
// filter does so as API servers do, with all that they trace and log by: the controller would be
// half as large again.
type reviews struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
	// asking has room for as many as are asked about at once, again for those of which some were
	// permitted before: nobody who has no token that is good for anything keeps them from that.
	asking, again chan struct{}

	mu sync.Mutex
	// permitted are the requests that were permitted last, and until when they are. They are
	// remembered for rememberedFor.
	permitted map[[sha256.Size]byte]time.Time
}

const (
	// reviewsAtOnce and reviewsPerSecond bound what those may ask of the API server who have no
	// token that is good for anything.
	reviewsAtOnce    = 10
	reviewsPerSecond = 5
	// reviewTakes is how long the API server may take to answer.
	reviewTakes = 10 * time.Second
	// permittedFor is how long an answer is believed, as by API servers.
	permittedFor  = time.Minute
	rememberedFor = 15 * time.Minute
)

// byToken lets requests through with a bearer token that may make them.
func byToken(config *rest.Config, client *http.Client) (server.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewsPerSecond, reviewsAtOnce
	tokens, err := authentication.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	access, err := authorization.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	r := &reviews{
		tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(),
		asking: make(chan struct{}, reviewsAtOnce), again: make(chan struct{}, reviewsAtOnce), permitted: map[[sha256.Size]byte]time.Time{},
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			status, err := r.judge(request)
			if err != nil {
				log.Error(err, "reviewing a request failed")
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			next.ServeHTTP(w, request)
		}), nil
	}, nil
}

// judge is 200 where a request may be made, and otherwise what it is answered.
func (r *reviews) judge(request *http.Request) (status int, err error) {
	token, sent := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !sent || token == "" {
		return http.StatusUnauthorized, nil
	}
	verb, path := strings.ToLower(request.Method), request.URL.Path
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	until := r.permittedUntil(key)
	if time.Now().Before(until) {
		return http.StatusOK, nil
	}
	slots := r.asking
	if !until.IsZero() {
		slots = r.again
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return http.StatusTooManyRequests, nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTakes)
	defer cancel()
	if status, err = r.ask(ctx, token, verb, path); status == http.StatusOK {
		r.permit(key)
	}
	return status, err
}

func (r *reviews) ask(ctx context.Context, token, verb, path string) (status int, err error) {
	who, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("creating a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}
	for name, values := range user.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	case !may.Status.Allowed || may.Status.Denied:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// permittedUntil is until when a request is permitted, zero where it was not lately.
func (r *reviews) permittedUntil(key [sha256.Size]byte) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.permitted[key]
}

func (r *reviews) permit(key [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.permitted, func(_ [sha256.Size]byte, until time.Time) bool { return now.After(until.Add(rememberedFor)) })
	r.permitted[key] = now.Add(permittedFor)
}
