package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	corev1 "k8s.io/api/core/v1"
)

const (
	askTimeout = 30 * time.Second
	// A webhook that fails is asked again after a while that doubles.
	firstPause = time.Second
	lastPause  = time.Minute
)

// Webhook is a load balancer that is asked to take a node out or to put it back.
type Webhook struct {
	Name string
	// Ask is idempotent by the question's ID.
	Ask func(context.Context, Question) (Answer, error)
}

// Question is what a webhook is asked.
type Question struct {
	// ID is the same whenever the same is asked again.
	ID     string
	Detach bool
	Node   *corev1.Node
	Reason string
	Since  time.Time
}

// Answer is what a webhook answers.
type Answer struct {
	// Done is whether no traffic comes any more, or traffic comes again.
	Done       bool
	RetryAfter time.Duration
	Message    string
}

// webhooks asks in the background and remembers the last answers. They may be
// forgotten: asking again gives them again.
type webhooks struct {
	all []Webhook
	// ring calls for another pass.
	ring func()

	mu    sync.Mutex
	known map[question]*known
}

// question names a wish of an Attachment, and who is asked.
type question struct {
	uid        string
	generation int64
	webhook    string
}

type known struct {
	asking   bool
	done     bool
	waits    string
	retryAt  time.Time
	failures int
}

func (w *webhooks) answers(a *v1alpha1.Attachment) []detach.Webhook {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []detach.Webhook
	for _, hook := range w.all {
		k := w.known[question{string(a.UID), a.Generation, hook.Name}]
		if k == nil {
			k = &known{}
		}
		out = append(out, detach.Webhook{
			Name:     hook.Name,
			Detached: k.done && a.Spec.Wanted == v1alpha1.WantDetached,
			Attached: k.done && a.Spec.Wanted == v1alpha1.WantAttached,
			Waits:    k.waits, RetryAt: k.retryAt,
		})
	}
	return out
}

func (w *webhooks) ask(a *v1alpha1.Attachment, node *corev1.Node, d detach.NodeDecision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range d.Ask {
		q := question{string(a.UID), a.Generation, name}
		if w.known[q] == nil {
			w.known[q] = &known{}
		}
		if w.known[q].asking {
			continue
		}
		w.known[q].asking = true
		hook := w.all[slices.IndexFunc(w.all, func(h Webhook) bool { return h.Name == name })]
		go w.put(q, hook, Question{
			ID:     fmt.Sprintf("%s/%d", a.UID, a.Generation),
			Detach: a.Spec.Wanted == v1alpha1.WantDetached,
			Node:   node.DeepCopy(), Reason: string(d.Reason), Since: a.CreationTimestamp.Time,
		})
	}
}

// put asks one webhook once.
func (w *webhooks) put(q question, hook Webhook, about Question) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	answer, err := hook.Ask(ctx, about)
	w.mu.Lock()
	k := w.known[q]
	k.asking = false
	switch {
	case err != nil:
		k.waits = "webhook " + hook.Name + " failed: " + err.Error()
		k.retryAt = time.Now().Add(min(firstPause<<min(k.failures, 10), lastPause))
		k.failures++
	case answer.Done:
		k.done, k.waits = true, ""
	default:
		k.waits = strings.TrimSuffix("webhook "+hook.Name+" is not done yet: "+answer.Message, ": ")
		k.retryAt, k.failures = time.Now().Add(answer.RetryAfter), 0
	}
	w.mu.Unlock()
	w.ring()
}

// forget drops the answers to Attachments that are not there any more.
func (w *webhooks) forget(there map[string]*v1alpha1.Attachment) {
	uids := map[string]bool{}
	for _, a := range there {
		uids[string(a.UID)] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for q, k := range w.known {
		if !uids[q.uid] && !k.asking {
			delete(w.known, q)
		}
	}
}
