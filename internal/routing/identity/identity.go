// Package identity decides whose stream it is: of which pod, and so of which IngressDaemonSet's proxies.
//
// Its files, in the order in which to open them:
//
//   - identity.go: ClaimOf, what a token says of who has it.
//   - owners.go: Verify, whether the pod is there, and whose it is.
//
// A proxy has a projected token with an audience of its own, that is bound to its pod. The API server says
// of the token who has it. All else is read of objects, and each is held by UID against who names it: an
// object of the same name is another. Every doubt is an error.
package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Audience is that of proxies' tokens, which is to be asked for in a review: no other token opens a stream.
const Audience = "ingressdaemonsets.mumoshu.github.io/proxy"

// What a review says of the pod that a token is bound to (k8s.io/apiserver v0.37.2,
// pkg/authentication/serviceaccount/util.go).
const (
	podName = "authentication.kubernetes.io/pod-name"
	podUID  = "authentication.kubernetes.io/pod-uid"
)

// Claim is what the API server says of a token.
type Claim struct {
	// Pod is the one that the token is bound to, UID its UID, ServiceAccount its name.
	Pod            types.NamespacedName
	UID            types.UID
	ServiceAccount string
	// Until is when the token expires.
	Until time.Time
}

// ClaimOf reads the review of a token, or says why the token opens nothing. Nothing of the token is part of
// the error.
func ClaimOf(token string, r authenticationv1.TokenReviewStatus) (Claim, error) {
	if !r.Authenticated {
		return Claim{}, fmt.Errorf("the token is not valid: %s", r.Error)
	}
	if !slices.Contains(r.Audiences, Audience) {
		return Claim{}, fmt.Errorf("the token is not for audience %s", Audience)
	}
	account, is := strings.CutPrefix(r.User.Username, "system:serviceaccount:")
	namespace, account, found := strings.Cut(account, ":")
	if !is || !found {
		return Claim{}, fmt.Errorf("user %q is no service account", r.User.Username)
	}
	pod, uid := r.User.Extra[podName], r.User.Extra[podUID]
	if len(pod) != 1 || len(uid) != 1 || pod[0] == "" || uid[0] == "" {
		return Claim{}, errors.New("the token is not bound to a pod")
	}
	until, err := expiry(token)
	if err != nil {
		return Claim{}, err
	}
	return Claim{types.NamespacedName{Namespace: namespace, Name: pod[0]}, types.UID(uid[0]), account, until}, nil
}

// expiry reads when a token expires, which a review does not say. It is not checked here: the API server
// has found the token valid.
func expiry(token string) (time.Time, error) {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return time.Time{}, errors.New("the token is no JSON Web Token")
	}
	var claims struct {
		Expiry int64 `json:"exp"`
	}
	if err := json.Unmarshal(text, &claims); err != nil || claims.Expiry <= 0 {
		return time.Time{}, errors.New("the token does not say when it expires")
	}
	return time.Unix(claims.Expiry, 0), nil
}
