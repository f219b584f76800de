// Package controller detaches nodes from their load balancers and attaches them again: it reads
// Nodes, Attachments and pods into a State, has detach.Plan decide, writes Attachments, and answers
// on the Nodes.
//
// observe.go reads Nodes, Attachments and pods into one State, detach.Plan decides, apply.go writes,
// report.go makes events and metrics. webhooks.go asks other load balancers.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldManager is the name under which Nodes and Attachments are written.
const FieldManager = "ingress-daemonset-controller-detach"

// Options say which nodes are detached, and from what.
type Options struct {
	// Reasons are those for which a node is detached.
	Reasons []detach.Reason
	// MinAttached is how many nodes, or what percentage of them, are left attached whatever
	// reasons hold.
	MinAttached intstr.IntOrString
	// Targets says whether somebody moves the targets of a cloud and answers in the
	// status of Attachments.
	Targets bool
	// InstanceID is the id of a node's machine by its providerID, empty where the
	// cloud's load balancers cannot know it.
	InstanceID func(providerID string) string
	// Webhooks are other load balancers.
	Webhooks []Webhook
	// Leads says whether no other controller can lead at this moment; nil where there is
	// only one. Without it no webhook is asked and no pod is stopped.
	Leads func() bool
}

// Reconciler takes nodes out of their load balancers and puts them back.
type Reconciler struct {
	Options
	client client.Client
	// live reads past the cache.
	live     client.Reader
	recorder events.EventRecorder
	webhooks *webhooks
	stops    *stops
	phases   *phases
	gone     map[string]gone
	retries  onepass.Retries
}

// gone is since when this process has seen a node gone, and for how long it had been
// before.
type gone struct {
	since  time.Time
	before time.Duration
}

// Reconcile observes, decides, acts and reports, once, for all nodes.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	d := detach.Plan(o.state)
	log.FromContext(ctx).V(2).Info("decided", "state", o.state, "decision", d)
	failed := r.apply(ctx, o, d)
	return onepass.Next(r.report(ctx, o, d, failed)), nil
}
