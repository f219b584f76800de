package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// account is one cloud as one role: its groups, what they were last seen to hold,
// and the calls that are left to make. All of it may be lost.
type account struct {
	// cloud is nil until it is connected, connect makes it, one at a time.
	cloud      Cloud
	connect    func() (Cloud, error)
	connecting sync.Mutex
	// role is the ARN of that role, empty for the controller's own.
	role string
	// refused is why nothing is ever asked as the role, empty where it may be assumed.
	refused string
	// outcome tells what a failed call asks for.
	outcome func(error) targets.Outcome
	random  func() float64
	// trigger calls for another pass.
	trigger func()
	// leads says whether no other controller can lead at this moment.
	leads func() bool
	// running is until when calls are made, stop ends them.
	running context.Context
	stop    context.CancelFunc

	// background limits the requests of the survey, over all accounts.
	background *rate.Limiter

	groups *listing[targets.Group]
	survey survey

	mu        sync.Mutex
	calls     *targets.Calls
	inventory map[string]inventory
	// moved is closed when there may be something to call for, and made anew.
	moved chan struct{}
}

// newAccount is not connected yet.
func (r *Reconciler) newAccount(role v1alpha1.AssumeRole) *account {
	a := &account{
		role: role.ARN, outcome: r.Outcome, random: r.Random, trigger: r.trigger, leads: r.Leads, calls: targets.NewCalls(r.Rate, r.Burst),
		inventory: map[string]inventory{}, moved: make(chan struct{}), background: r.background, survey: newSurvey(),
	}
	as := &role
	switch {
	case role == (v1alpha1.AssumeRole{}):
		as = nil
	case !slices.Contains(r.Roles, role):
		a.refused = refusal(role)
	}
	a.connect = func() (Cloud, error) { return r.Connect(as, a.before) }
	a.running, a.stop = context.WithCancel(r.running)
	a.groups = &listing[targets.Group]{what: "reading the target groups", list: a.countedList, trigger: r.trigger}
	return a
}

// inventory is what a group was seen to hold by a read that was sent at a time, and as what
// it was described then. It is fresh until it was decided upon.
type inventory struct {
	at      time.Time
	group   targets.Group
	targets map[targets.Target]targets.Health
	fresh   bool
}

// run makes calls until ctx is done.
func (a *account) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		a.mu.Lock()
		now := time.Now()
		call, ready, at := a.calls.Next(now)
		stale := len(a.calls.Stale(now)) > 0
		moved := a.moved
		a.mu.Unlock()
		if stale && !ready {
			a.trigger()
		}
		group, known := a.group(call.Group)
		switch {
		case ready && !known:
			a.done(call, targets.Failed, "the group is not there any more")
		case ready:
			running.Go(func() { a.call(ctx, call, group) })
		default:
			wait(ctx, moved, at)
		}
	}
}

// wait returns when something moved, at a moment unless that is zero, and when ctx is done.
func wait(ctx context.Context, moved <-chan struct{}, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-moved:
	case <-due:
	case <-ctx.Done():
	}
}

// move wakes run. It is called with mu held.
func (a *account) move() {
	close(a.moved)
	a.moved = make(chan struct{})
}

func (a *account) call(ctx context.Context, call targets.Call, group targets.Group) {
	sent := time.Now()
	err := a.mayCall(call, sent)
	if err != nil {
		a.done(call, targets.Failed, err.Error())
		return
	}
	ctx = context.WithValue(tokenTaken(ctx), callKey{}, call)
	switch call.Kind {
	case targets.Read:
		err = a.read(ctx, group)
	case targets.Register:
		err = a.cloud.Register(ctx, group, call.Targets)
	case targets.Deregister:
		err = a.cloud.Deregister(ctx, group, targetsOf(call.Targets))
	}
	outcome, why := targets.Accepted, ""
	if err != nil {
		outcome, why = a.outcome(err), err.Error()
	}
	logCall(ctx, call, outcome, why)
	a.done(call, outcome, why)
}

// logCall tells of a call that moves targets, and how it ended. Reads move none, and are made all the time.
func logCall(ctx context.Context, call targets.Call, outcome targets.Outcome, why string) {
	if call.Kind == targets.Read {
		return
	}
	reasons := map[string]string{}
	for _, r := range call.Targets {
		reasons[r.String()] = call.Why[r.Target]
	}
	log.FromContext(ctx).Info("called the cloud", "call", call.Kind.String(), "group", call.Group, "targets", reasons, "outcome", outcome.String(), "answer", why)
}

// read reads what a group holds, and before that its attributes, without which nothing is
// decided about it.
func (a *account) read(ctx context.Context, group targets.Group) error {
	group, err := a.cloud.Describe(ctx, group)
	if err != nil {
		return err
	}
	sent := time.Now()
	read, err := a.cloud.List(ctx, group, nil)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inventory[group.ID] = inventory{sent, group, read, true}
	if group.Type == targets.Instance {
		a.survey.sweeps.Done(group.ID, sent, read)
	}
	return nil
}

// callKey marks a context with the call that its requests are made for.
type callKey struct{}

// errOld and errNotLeading are why a call is not made. It is decided again.
var (
	errOld        = errors.New("it was decided too long ago")
	errNotLeading = errors.New("another controller may lead by now")
)

// mayCall is an error where something is to be registered or deregistered by a decision
// that is too old, or that another controller may have replaced.
func (a *account) mayCall(call targets.Call, now time.Time) error {
	switch {
	case call.Kind == targets.Read:
		return nil
	case call.Old(now):
		return errOld
	case a.leads != nil && !a.leads():
		return errNotLeading
	}
	return nil
}

func targetsOf(list []targets.Registration) []targets.Target {
	out := make([]targets.Target, len(list))
	for i := range list {
		out[i] = list[i].Target
	}
	return out
}

func (a *account) done(call targets.Call, outcome targets.Outcome, why string) {
	a.mu.Lock()
	a.calls.Done(time.Now(), call, outcome, why, a.random())
	a.move()
	a.mu.Unlock()
	callsMade.WithLabelValues(call.Kind.String(), outcome.String(), a.role).Inc()
	a.trigger()
}

// countedList lists the groups, and counts that as a call: while the cloud cannot be reached, it is the only
// one that is made.
func (a *account) countedList(ctx context.Context) ([]targets.Group, error) {
	groups, err := a.listGroups(ctx)
	outcome := targets.Accepted
	if err != nil {
		outcome = a.outcome(err)
	}
	callsMade.WithLabelValues("List", outcome.String(), a.role).Inc()
	a.tellOfList(ctx, len(groups), err)
	return groups, err
}

// tellOfList logs when the cloud answers for the first time, by which is seen that it takes the credentials,
// and when that begins or ends to fail.
func (a *account) tellOfList(ctx context.Context, found int, err error) {
	_, read, failure := a.groups.known()
	logger := log.FromContext(ctx).WithName("targets").WithValues("role", a.role)
	switch {
	case err != nil && failure == "":
		logger.Error(err, "the cloud does not list its target groups")
	case err == nil && (!read || failure != ""):
		logger.Info("the cloud lists its target groups", "groups", found)
	}
}

// connected is the cloud. The first that asks connects, and calls are made from then on.
func (a *account) connected() (Cloud, error) {
	a.connecting.Lock()
	defer a.connecting.Unlock()
	if a.cloud != nil {
		return a.cloud, nil
	}
	cloud, err := a.connect()
	if err != nil {
		return nil, fmt.Errorf("connecting to the cloud: %w", err)
	}
	a.mu.Lock()
	a.cloud = cloud
	a.mu.Unlock()
	go a.run(a.running)
	go a.sweep(a.running)
	return cloud, nil
}

// group is one of those that are known.
func (a *account) group(id string) (g targets.Group, known bool) {
	groups, _, _ := a.groups.known()
	if g, known = find(groups, id); known {
		return g, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	direct, known := a.survey.direct[id]
	return direct.Group, known
}

// observe is what is known of the account.
func (a *account) observe(role v1alpha1.AssumeRole) targets.Account {
	groups, _, failure := a.groups.known()
	out := targets.Account{Role: role, Failure: failure, ListedAt: a.groups.since(), LooksPerSecond: float64(a.background.Limit())}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cloud != nil {
		out.Region = a.cloud.Region()
	}
	if a.refused != "" {
		out.Failure, out.Refused = a.refused, true
	}
	if out.Failure == "" {
		out.Failure = a.survey.failure()
	}
	out.Missing, out.Owners = maps.Clone(a.survey.missing), maps.Clone(a.survey.owners)
	out.LooksFor, out.LookFailure = a.survey.sweeps.Told(), a.survey.lookFailure
	for _, g := range a.survey.complete(groups, out.ListedAt) {
		held, seen := a.inventory[g.ID], a.survey.sweeps.Seen(g.ID)
		if !held.at.IsZero() {
			g = g.DescribedBy(held.group)
		}
		out.Groups = append(out.Groups, targets.KnownGroup{
			Group: g, Registered: held.targets, ReadAt: held.at, Live: held.fresh, SweptAt: seen.At, Instances: seen.Instances, Left: seen.Left,
			Answers: a.calls.Answers(g.ID), Refused: a.calls.Refused(g.ID), Failing: a.failing(g.ID),
		})
	}
	return out
}

// plan has the calls of a decision made, of which the records are written. held says whether
// others wait for that: then what was read stays fresh, unless a call is made now.
func (a *account) plan(group string, d targets.GroupDecision, held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	inventory := a.inventory[group]
	inventory.fresh = inventory.fresh && held && len(d.Register)+len(d.Deregister) == 0
	a.inventory[group] = inventory
	a.calls.Plan(group, d)
	a.move()
}

// keep drops the work of all groups but some.
func (a *account) keep(groups map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls.Keep(groups)
	maps.DeleteFunc(a.inventory, func(id string, _ inventory) bool { return !groups[id] })
}

// failing is why calls to a group fail as a whole, empty while they do not. It is called
// with mu held.
func (a *account) failing(group string) string {
	for _, kind := range []targets.Kind{targets.Deregister, targets.Register, targets.Read} {
		if why, _ := a.calls.Failing(group, kind); why != "" {
			return why
		}
	}
	return ""
}

type tokenKey struct{}

// tokenTaken marks a context whose first request has its token already.
func tokenTaken(ctx context.Context) context.Context {
	return context.WithValue(ctx, tokenKey{}, new(true))
}

// before holds back a request to the cloud for which no token was taken yet.
func (a *account) before(ctx context.Context) error {
	if _, quiet := ctx.Value(backgroundKey{}).(bool); quiet {
		return a.background.Wait(ctx)
	}
	if err := a.token(ctx); err != nil {
		return err
	}
	if call, made := ctx.Value(callKey{}).(targets.Call); made {
		// Right before it is sent, since the process may have been frozen anywhere.
		return a.mayCall(call, time.Now())
	}
	return nil
}

// token takes one, or waits for it.
func (a *account) token(ctx context.Context) error {
	if taken, ok := ctx.Value(tokenKey{}).(*bool); ok && *taken {
		*taken = false
		return nil
	}
	waits := func(requests int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls.Wait(requests)
	}
	waits(1)
	defer waits(-1)
	for {
		a.mu.Lock()
		at := a.calls.Take(time.Now())
		a.mu.Unlock()
		if !time.Now().Before(at) {
			return nil
		}
		select {
		case <-time.After(time.Until(at) + time.Microsecond):
			// A call that waits for the same token was decided, and comes first but now and then.
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
