package controller

import (
	"errors"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// errNotLeading is why a node is not taken out, a pod not stopped, or a webhook not asked. It is decided
// again.
var errNotLeading = errors.New("another controller may lead by now")

// leads reports whether no other controller can lead at this moment.
func (r *Reconciler) leads() bool { return r.Leads == nil || r.Leads() }

// gone is since when this process has seen a node gone, and for how long it had been
// before.
type gone struct {
	since  time.Time
	before time.Duration
}
