package controller

import (
	"context"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// leads reports whether no other controller can lead at this moment.
func (r *Reconciler) leads() bool { return r.Leads == nil || r.Leads() }

// same reports whether a status need not be written.
func same[T any](a, b T) bool { return equality.Semantic.DeepEqual(a, b) }
