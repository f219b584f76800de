package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1/webhook"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
	// Ask is idempotent by the request's ID and Action.
	Ask func(context.Context, webhook.Request) (Answer, error)
}

// while is the webhook, which is asked nothing without the lease: that is looked up right before
// it is asked, since the process may have been frozen since that was decided.
func (h Webhook) while(leads func() bool) Webhook {
	return Webhook{h.Name, func(ctx context.Context, r webhook.Request) (Answer, error) {
		if leads != nil && !leads() {
			return Answer{}, errNotLeading
		}
		return h.Ask(ctx, r)
	}}
}

// Answer is what a webhook answers.
type Answer struct {
	// Done says whether no traffic comes any more, or traffic comes again.
	Done       bool
	RetryAfter time.Duration
	Message    string
}

// webhooks asks in the background and remembers the last answers. They may be
// forgotten: asking again gives them again. Each webhook is asked one question at a time
// about a node, so that its answers come in the order of the questions.
type webhooks struct {
	all []Webhook
	// trigger calls for another pass.
	trigger func()

	mu    sync.Mutex
	known map[question]*known
	// open are the questions that are under way.
	open map[addressee]bool
}

// addressee is who is asked, and about which node.
type addressee struct{ node, webhook string }

// question names what an Attachment wants at one generation, and who is asked.
type question struct {
	uid        string
	generation int64
	webhook    string
}

type known struct {
	done bool
	// undone says whether it answered that it is not done.
	undone   bool
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
			Undone:   k.undone,
			Waits:    k.waits, RetryAt: k.retryAt,
		})
	}
	return out
}

// ask asks the webhooks that a decision names, each while no other controller can lead; leads is
// nil where there is only one.
func (w *webhooks) ask(a *v1alpha1.Attachment, node *corev1.Node, d detach.NodeDecision, leads func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range d.Ask {
		q := question{string(a.UID), a.Generation, name}
		if w.known[q] == nil {
			w.known[q] = &known{}
		}
		about := addressee{node.Name, name}
		if w.open[about] {
			// What is asked now is asked when that is answered, which calls for a pass.
			continue
		}
		w.open[about] = true
		hook := w.all[slices.IndexFunc(w.all, func(h Webhook) bool { return h.Name == name })].while(leads)
		go w.put(w.known[q], about, hook, request(a, node, d.Reason))
	}
}

// request asks for a node to be where an Attachment wants it.
func request(a *v1alpha1.Attachment, node *corev1.Node, why detach.Reason) webhook.Request {
	r := webhook.Request{
		ID: detachmentID(a), Action: webhook.Attach, Reason: string(why), Since: a.CreationTimestamp.Time,
		Node: webhook.Node{Name: node.Name, ProviderID: node.Spec.ProviderID, Labels: maps.Clone(node.Labels)},
	}
	if a.Spec.Wanted == v1alpha1.WantDetached {
		r.Action = webhook.Detach
	}
	for _, address := range node.Status.Addresses {
		r.Node.Addresses = append(r.Node.Addresses, webhook.Address{Type: string(address.Type), Address: address.Address})
	}
	return r
}

// detachmentID names one detachment of a node. A number that somebody garbled is none.
func detachmentID(a *v1alpha1.Attachment) string {
	number, err := strconv.ParseInt(a.Annotations[v1alpha1.AnnotationDetachment], 10, 64)
	if err != nil {
		number = 1
	}
	return fmt.Sprintf("%s/%d", a.UID, number)
}

// put asks one webhook once.
func (w *webhooks) put(k *known, about addressee, hook Webhook, r webhook.Request) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	answer, err := hook.Ask(ctx, r)
	if err == nil && answer.Done {
		log.FromContext(ctx).Info("carried out", "action", "AskWebhook", "node", about.node, "reason", cmp.Or(r.Reason, nothingAsks), "webhook", hook.Name, "detached", r.Action == webhook.Detach)
	}
	w.mu.Lock()
	delete(w.open, about)
	switch {
	case err != nil:
		k.waits = "webhook " + hook.Name + " failed: " + err.Error()
		k.retryAt = time.Now().Add(min(firstPause<<min(k.failures, 10), lastPause))
		k.failures++
	case answer.Done:
		k.done, k.undone, k.waits = true, false, ""
	default:
		k.undone = true
		k.waits = strings.TrimSuffix("webhook "+hook.Name+" is not done yet: "+answer.Message, ": ")
		k.retryAt, k.failures = time.Now().Add(answer.RetryAfter), 0
	}
	w.mu.Unlock()
	w.trigger()
}

// forget drops the answers to Attachments that are not there any more.
func (w *webhooks) forget(there map[string]*v1alpha1.Attachment) {
	uids := map[string]bool{}
	for _, a := range there {
		uids[string(a.UID)] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for q := range w.known {
		if !uids[q.uid] {
			delete(w.known, q)
		}
	}
}
