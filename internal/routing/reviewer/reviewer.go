// Package reviewer lets proxies in: it asks the API server whose token a stream was opened with, reads the
// pod and its owners, and has package identity decide. slots.go bounds how many are asked about at once,
// metrics.go counts who is not let in.
package reviewer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/identity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reviewer is for delta.Options.Identify.
type Reviewer struct {
	api   client.Client
	slots *slots
	log   logr.Logger
	// saySkew says once that clocks are apart.
	saySkew sync.Once
}

// New asks the API server itself: a cache may still have a pod that is gone, or not yet one that asks.
func New(live client.Client, log logr.Logger) *Reviewer {
	return &Reviewer{api: live, slots: newSlots(), log: log}
}

// Identify says which proxy opens a stream, by its token: PermissionDenied for whoever is none, Unavailable
// where the API server does not answer, ResourceExhausted where too many are asked about before. Who is not let in is
// counted.
func (r *Reviewer) Identify(ctx context.Context) (delta.Peer, error) {
	peer, err := r.identify(ctx)
	if err != nil {
		notLetInCounter.WithLabelValues(status.Code(err).String()).Inc()
	}
	return peer, err
}

func (r *Reviewer) identify(ctx context.Context) (delta.Peer, error) {
	token := delta.TokenOf(ctx)
	if token == "" {
		return delta.Peer{}, status.Error(codes.PermissionDenied, "there is no token")
	}
	leave, err := r.slots.enter(ctx, token)
	if err != nil {
		return delta.Peer{}, err
	}
	defer leave()
	peer, err := r.review(ctx, token)
	if err == nil {
		r.slots.remember(token)
	}
	return peer, err
}

func (r *Reviewer) review(ctx context.Context, token string) (delta.Peer, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{identity.Audience}}}
	if err := r.api.Create(ctx, review); err != nil {
		return delta.Peer{}, unanswered("review a token", err)
	}
	claim, err := identity.ClaimOf(token, review.Status)
	if err != nil {
		return delta.Peer{}, status.Error(codes.PermissionDenied, err.Error())
	}
	objects, err := r.read(ctx, claim)
	if err != nil {
		return delta.Peer{}, unanswered("read a pod and its owners", err)
	}
	set, err := identity.Verify(claim, objects)
	if err != nil {
		return delta.Peer{}, status.Error(codes.PermissionDenied, err.Error())
	}
	return delta.Peer{IngressDaemonSet: set, Pod: claim.Pod.Name, UID: claim.UID, Until: r.until(claim)}, nil
}

// shortest is how long a stream lasts at least. The API server has found its token valid by a clock of its own: where
// this one is ahead, streams would end before they begin.
const shortest = time.Minute

// until is when the stream of who claims that ends.
func (r *Reviewer) until(c identity.Claim) time.Time {
	now := time.Now()
	if c.Until.Before(now.Add(-shortest)) {
		r.saySkew.Do(func() {
			r.log.Info("the clock of this controller is ahead of the API server's: proxies open their streams again every minute", "at least by", now.Sub(c.Until))
		})
	}
	if earliest := now.Add(shortest); c.Until.Before(earliest) {
		return earliest
	}
	return c.Until
}

// unanswered is what is said where the API server did not answer: what it said is for the log of the
// controller, and may name what is no affair of who asks.
func unanswered(what string, err error) error {
	return status.Error(codes.Unavailable, fmt.Sprintf("cannot %s: %s", what, apierrors.ReasonForError(err)))
}

// read reads a claim's pod and its owners, as far as there are any.
func (r *Reviewer) read(ctx context.Context, c identity.Claim) (o identity.Objects, err error) {
	if o.Pod, err = get(ctx, r.api, c.Pod, &corev1.Pod{}); o.Pod == nil {
		return o, err
	}
	if o.ReplicaSet, err = get(ctx, r.api, identity.Owner(o.Pod), &appsv1.ReplicaSet{}); o.ReplicaSet == nil {
		return o, err
	}
	if o.Deployment, err = get(ctx, r.api, identity.Owner(o.ReplicaSet), &appsv1.Deployment{}); o.Deployment == nil {
		return o, err
	}
	o.IngressDaemonSet, err = get(ctx, r.api, identity.Owner(o.Deployment), &v1alpha1.IngressDaemonSet{})
	return o, err
}

// get reads an object: nil where there is none, or where it has no name.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, name types.NamespacedName, into P) (P, error) {
	if name.Name == "" {
		return nil, nil
	}
	err := from.Get(ctx, name, into)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return into, nil
}
