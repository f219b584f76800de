// Package controller is the shell around package targets: observe.go reads
// TargetGroupAttachments, Attachments, pods and nodes, share.go makes of them the
// State of each group, targets.Decide decides, records.go and report.go write what
// must be remembered and what there is to tell, and account.go has the calls made.
// Beside them, listing.go lists what changes seldom, such as the groups and, with
// bindings.go, who has one to itself; connections.go asks health checkers whether
// traffic still comes; hooks.go and gates.go tell pods; warnings.go warns their users.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldManager is the name under which statuses and pods are written.
const FieldManager = "ingress-daemonset-controller-targets"

// Options say how the cloud is reached and used.
type Options struct {
	// Connect makes a client of the cloud that acts as a role, or as whoever the
	// controller is where it is nil. before is to be called before each request.
	Connect func(role *v1alpha1.AssumeRole, before func(context.Context) error) (Cloud, error)
	// Outcome tells what a failed call asks for.
	Outcome func(error) targets.Outcome
	// Floor is how long a kind of load balancer may send new connections to what was
	// deregistered.
	Floor func(targets.Balancer) time.Duration
	// Rate and Burst limit the requests to the cloud, as each role.
	Rate  float64
	Burst int
	// GroupsEvery is how often it is read which target groups there are.
	GroupsEvery time.Duration
}

// Reconciler keeps target groups as they should be.
type Reconciler struct {
	Options
	client   client.Client
	recorder events.EventRecorder
	ring     func()
	// connections are asked for while targets leave.
	connections *connections

	// running is until when calls are made in the background.
	running  context.Context
	accounts map[v1alpha1.AssumeRole]*account
	// wishes are since when each Attachment asks for what it does, as seen here.
	wishes   map[wish]time.Time
	bindings *listing[binding]
	// gates are the versions in which pods were seen when their gates were written.
	gates map[types.UID]string
}

// wish is one generation of an Attachment.
type wish struct {
	uid        string
	generation int64
}

// Reconcile observes, decides, writes and has calls made, once, for all groups.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	begun := time.Now()
	o, err := r.observe(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("observing: %w", err)
	}
	shares := r.decide(ctx, o)
	if err := r.askAbout(ctx, o, shares); err != nil {
		return ctrl.Result{}, err
	}
	r.observeGates(o, shares)
	failed := r.write(ctx, o, shares)
	wake := r.plan(shares, failed)
	left, err := r.writeGates(ctx, o)
	passTook.Observe(time.Since(begun).Seconds())
	if err := errors.Join(err, onlyConflicts(failed)); err != nil {
		return ctrl.Result{}, err
	}
	if left {
		wake = o.now
	}
	if len(failed) > 0 {
		wake = o.now.Add(conflictPause)
	}
	return ctrl.Result{RequeueAfter: until(earliest(wake, o.now.Add(r.GroupsEvery)), o.now)}, nil
}

// conflictPause is after how long what conflicted is tried again.
const conflictPause = 50 * time.Millisecond

// decide decides about each group of each account.
func (r *Reconciler) decide(ctx context.Context, o *observed) []*share {
	since, accounts := r.since(o), r.accountsOf(o)
	r.bindings.renew(r.running, r.GroupsEvery)
	bound, read, failure := r.bindings.known()
	if !read {
		// Nothing is touched of which it is not known whether somebody else has it to itself.
		for role := range accounts {
			r.tellUnread(o, role, false, cmp.Or(failure, "the TargetGroupBindings are being read"))
		}
		return nil
	}
	var shares []*share
	for role, a := range accounts {
		a.groups.renew(r.running, r.GroupsEvery)
		groups, read, failure := a.groups.known()
		for _, g := range groups {
			s := newShare(a, g, o, r.Floor(g.Balancer))
			s.binding = bindingOf(g, bound)
			for _, c := range o.claims {
				if c.role() == role {
					s.join(c, o.out, o.nodes)
				}
			}
			for _, h := range o.holds {
				// Only as ourselves are nodes looked for in groups that nobody names.
				if role == (v1alpha1.AssumeRole{}) || len(s.claims) > 0 {
					s.hold(h)
				}
			}
			if len(s.claims)+len(s.holds) == 0 {
				a.forget(g.ID)
				continue
			}
			s.state.Quiet = r.told(o, s.state)
			s.decide(since)
			s.keep()
			shares = append(shares, s)
		}
		r.tellUnread(o, role, read, failure)
	}
	log.FromContext(ctx).V(2).Info("decided", "groups", len(shares))
	return shares
}

// tellUnread has everybody who depends on an account know where its groups are not.
func (r *Reconciler) tellUnread(o *observed, role v1alpha1.AssumeRole, read bool, failure string) {
	for _, c := range o.claims {
		switch {
		case c.role() != role:
		case !read:
			c.unread = cmp.Or(failure, "the target groups are being read")
		case failure != "":
			c.faults = append(c.faults, failure)
		}
	}
	if role != (v1alpha1.AssumeRole{}) || read {
		return
	}
	for _, h := range o.holds {
		h.unread = cmp.Or(failure, "the list of target groups is being read")
	}
}

func (c *claim) role() v1alpha1.AssumeRole {
	if c.object.Spec.AssumeRole == nil {
		return v1alpha1.AssumeRole{}
	}
	return *c.object.Spec.AssumeRole
}

// accountsOf are the accounts that are needed, connected where that is possible.
func (r *Reconciler) accountsOf(o *observed) map[v1alpha1.AssumeRole]*account {
	needed := map[v1alpha1.AssumeRole]*account{}
	if len(o.holds) > 0 {
		needed[v1alpha1.AssumeRole{}] = nil
	}
	for _, c := range o.claims {
		needed[c.role()] = nil
	}
	for role := range needed {
		a, err := r.account(role)
		if err != nil {
			r.tellUnread(o, role, false, "connecting to the cloud: "+err.Error())
			delete(needed, role)
			continue
		}
		needed[role] = a
	}
	return needed
}

func (r *Reconciler) account(role v1alpha1.AssumeRole) (*account, error) {
	if a := r.accounts[role]; a != nil {
		return a, nil
	}
	a := &account{
		outcome: r.Outcome, ring: r.ring, calls: targets.NewCalls(r.Rate, r.Burst),
		inventory: map[string]inventory{}, moved: make(chan struct{}),
	}
	a.groups = &listing[targets.Group]{what: "reading the target groups", list: a.listGroups, ring: r.ring}
	as := &role
	if role == (v1alpha1.AssumeRole{}) {
		as = nil
	}
	cloud, err := r.Connect(as, a.before)
	if err != nil {
		return nil, err
	}
	a.cloud = cloud
	r.accounts[role] = a
	go a.run(r.running)
	return a, nil
}

// since is from when on a group must have been read for each Attachment.
func (r *Reconciler) since(o *observed) map[*hold]time.Time {
	out, wishes := map[*hold]time.Time{}, map[wish]time.Time{}
	for _, h := range o.holds {
		w := wish{string(h.object.UID), h.object.Generation}
		wishes[w] = r.wishes[w]
		if wishes[w].IsZero() {
			wishes[w] = o.now
		}
		out[h] = wishes[w]
	}
	r.wishes = wishes
	return out
}

// write writes the statuses that changed, and returns what failed for whom.
func (r *Reconciler) write(ctx context.Context, o *observed, shares []*share) map[any]error {
	failed := map[any]error{}
	for c, err := range r.tellHooks(ctx, shares) {
		failed[c] = fmt.Errorf("TargetGroupAttachment %s/%s: %w", c.object.Namespace, c.object.Name, err)
	}
	for _, c := range o.claims {
		if failed[c] != nil {
			// Nothing of it is registered before its pods know.
			continue
		}
		if err := r.writeClaim(ctx, o, c, shares); err != nil {
			failed[c] = fmt.Errorf("TargetGroupAttachment %s/%s: %w", c.object.Namespace, c.object.Name, err)
		}
	}
	for _, h := range o.holds {
		if err := r.writeHold(ctx, h); err != nil {
			failed[h] = fmt.Errorf("Attachment %s: %w", h.object.Name, err)
		}
	}
	return failed
}

func (r *Reconciler) writeClaim(ctx context.Context, o *observed, c *claim, shares []*share) error {
	if c.object.DeletionTimestamp == nil && controllerutil.AddFinalizer(c.object, v1alpha1.Finalizer) {
		// Nothing is registered before it is sure to be deregistered.
		if err := r.client.Update(ctx, c.object, client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("adding the finalizer: %w", err)
		}
		return errNotYet
	}
	if c.object.DeletionTimestamp != nil {
		return r.release(ctx, c)
	}
	before := c.object.Status.Conditions
	c.tell(o.now, shares)
	if same(c.object.Status, c.status) {
		return nil
	}
	c.object.Status = c.status
	if err := r.client.Status().Update(ctx, c.object, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.announce(c, before)
	return nil
}

// errNotYet is no failure: the object that was written comes back by its event.
var errNotYet = errors.New("the finalizer was added a moment ago")

// release lets go of a TargetGroupAttachment that is deleted, when nothing of it is left.
func (r *Reconciler) release(ctx context.Context, c *claim) error {
	if !same(c.object.Status.Groups, c.status.Groups) {
		c.object.Status.Groups = c.status.Groups
		if err := r.client.Status().Update(ctx, c.object, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
	}
	left := c.unread != "" || len(c.gates) > 0
	for _, report := range c.reports {
		left = left || report.Phase != targets.Stopped && report.Phase != targets.Absent && report.Phase != targets.Foreign
	}
	if left || !controllerutil.RemoveFinalizer(c.object, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.client.Update(ctx, c.object, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) writeHold(ctx context.Context, h *hold) error {
	h.tell()
	if same(h.object.Status, h.status) {
		return nil
	}
	h.object.Status = h.status
	// One that was deleted meanwhile has failed as well: without it nothing is remembered.
	if err := r.client.Status().Update(ctx, h.object, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// plan has the calls of each group made of which all records are written.
func (r *Reconciler) plan(shares []*share, failed map[any]error) (wake time.Time) {
	for _, s := range shares {
		wake = earliest(wake, s.decision.WakeAt)
		if s.broken != "" || s.unwritten(failed) {
			continue
		}
		s.account.plan(s.state.Group.ID, s.decision)
	}
	return wake
}

func (s *share) unwritten(failed map[any]error) bool {
	for _, c := range s.claims {
		if failed[c] != nil {
			return true
		}
	}
	for _, h := range s.holds {
		if failed[h] != nil {
			return true
		}
	}
	return false
}

// onlyConflicts joins what failed, but for writes to what has changed, or gone, since
// it was observed, which are decided about again in any case.
func onlyConflicts(failed map[any]error) error {
	var all []error
	for _, err := range failed {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !errors.Is(err, errNotYet) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func until(at, now time.Time) time.Duration { return max(at.Sub(now), time.Millisecond) }

// announce makes an event where something began to stand in the way, or to be warned of.
func (r *Reconciler) announce(c *claim, before []metav1.Condition) {
	for _, kind := range []string{v1alpha1.ConditionBlocked, v1alpha1.ConditionWarning} {
		if meta.IsStatusConditionTrue(c.status.Conditions, kind) && !meta.IsStatusConditionTrue(before, kind) {
			now := meta.FindStatusCondition(c.status.Conditions, kind)
			r.recorder.Eventf(c.object, nil, corev1.EventTypeWarning, now.Reason, now.Type, "%s", now.Message)
		}
	}
}
