// Package controller keeps target groups as they should be: it reads pods, nodes and what is known
// of the cloud into a State, has targets.Plan decide, records that in statuses, and then registers
// and deregisters targets.
//
// observe.go reads objects, and what is known of the cloud, into one State, targets.Plan decides,
// apply.go writes what must be remembered and has calls made, report.go makes events, metrics.go metrics.
// Beside them, writes.go keeps writes that fail from holding up others, account.go makes calls as
// one role, roles.go says which may be assumed, listing.go lists what changes seldom, such as the
// groups and, with bindings.go, who has one to itself, survey.go finds what else is asked of an
// account, caches.go whether caches show what another leader saw, answers.go what they do not show
// yet of what was written, and connections.go asks health checkers whether traffic still comes. Without
// a cloud there is none of that: idle.go says so in each status.
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldManager is the name under which statuses and pods are written.
const FieldManager = "ingress-daemonset-controller-targets"

// Options say how the cloud is reached and used.
type Options struct {
	// Connect makes a client of the cloud that acts as a role, or as whoever the
	// controller is where it is nil. before is to be called before each request.
	Connect func(role *v1alpha1.AssumeRole, before func(context.Context) error) (Cloud, error)
	// Roles are those that may be assumed.
	Roles []v1alpha1.AssumeRole
	// Outcome tells what a failed call asks for.
	Outcome func(error) targets.Outcome
	// SettleTime is how long a kind of load balancer may send new connections to what was
	// deregistered.
	SettleTime func(targets.Balancer) time.Duration
	// Rate and Burst limit the requests to the cloud, as each role.
	Rate  float64
	Burst int
	// BackgroundRate limits the requests that nobody waits for, as all roles together.
	BackgroundRate float64
	// Detaching says whether nodes may be asked to be out, DetachTagged the tags of the groups
	// in which they are looked for, none for all.
	Detaching    bool
	DetachTagged map[string]string
	// RequireGroupTag says whether a group needs targets.NamespacesTag to take new targets.
	RequireGroupTag bool
	// GroupsEvery is how often it is read which target groups there are.
	GroupsEvery time.Duration
	// Leads says whether no other controller can lead at this moment; nil where there is
	// only one. Without it nothing is registered or deregistered.
	Leads func() bool
	// Random, from 0 to below 1, spreads what is tried again; nil is rand.Float64.
	Random func() float64
}

// Reconciler keeps target groups as they should be.
type Reconciler struct {
	Options
	client   client.Client
	recorder events.EventRecorder
	trigger  func()
	// running is until when calls are made in the background.
	running context.Context

	writes *writes
	// connections are asked for while targets leave.
	connections *connections
	accounts    map[v1alpha1.AssumeRole]*account
	background  *rate.Limiter
	bindings    *listing[targets.Binding]
	memory      targets.Memory
	// caches are behind what other leaders have recorded, until they were seen to be not.
	caches *caches
	// answers are objects as they were written and are not shown yet.
	answers *answers
	// told are the pods whose drain hooks this process told that traffic may come.
	told told
	// slow is why the calls of the last decision were not made, nil where they were; tooSlow says so
	// where that is so again and again.
	slow    error
	tooSlow string
	// untold are events of statuses that are being written.
	untold []untold
	// gates are the versions in which pods were seen when their gates were written.
	gates map[types.UID]string
	// counted are the numbers of targets that the metrics tell.
	counted map[counted]int
	// conditions are those of TargetGroupAttachments that they tell.
	conditions conditionValues
}

// Reconcile observes, decides, applies and reports, once, for all groups.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	d := targets.Plan(o.state)
	r.date(ctx, o, &d)
	log.FromContext(ctx).V(2).Info("decided", "groups", len(d.Groups))
	done := r.apply(ctx, o, d)
	return onepass.Next(r.report(ctx, o, d, done)), nil
}

// date has the age of a decision count from now, and tells users where one after another took too long:
// a process that was frozen once goes on by itself.
func (r *Reconciler) date(ctx context.Context, o *observed, d *targets.Decision) {
	before, err := r.slow, d.Date(o.state.Now, time.Now())
	if r.slow = err; err == nil {
		r.tooSlow = ""
		return
	}
	log.FromContext(ctx).Error(err, "a decision came too late")
	if before != nil {
		r.tooSlow = err.Error()
	}
}
