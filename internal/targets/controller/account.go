package controller

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// Cloud is where target groups are. Another cloud is one package that has these.
type Cloud interface {
	// Groups are all that may be looked at.
	Groups(context.Context) ([]targets.Group, error)
	// List is the inventory of a group, or of only some targets, those that are not
	// registered included.
	List(ctx context.Context, g targets.Group, only []targets.Target) (map[targets.Target]targets.Health, error)
	Register(context.Context, targets.Group, []targets.Registration) error
	Deregister(context.Context, targets.Group, []targets.Target) error
}

// account is one cloud as one role: its groups, what they were last seen to hold,
// and the calls that are left to make. All of it may be lost.
type account struct {
	cloud Cloud
	// outcome tells what a failed call asks for.
	outcome func(error) targets.Outcome
	// ring calls for another pass.
	ring func()

	groups *listing[targets.Group]

	mu        sync.Mutex
	calls     *targets.Calls
	inventory map[string]inventory
	// moved is closed when there may be something to call for, and made anew.
	moved chan struct{}
}

// inventory is what a group was seen to hold by a read that was sent at a time. It
// is fresh until it was decided upon.
type inventory struct {
	at      time.Time
	targets map[targets.Target]targets.Health
	fresh   bool
}

// run makes calls until ctx is done.
func (a *account) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		a.mu.Lock()
		call, ready, at := a.calls.Next(time.Now())
		moved := a.moved
		a.mu.Unlock()
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
	var err error
	ctx = tokenTaken(ctx)
	switch call.Kind {
	case targets.Read:
		var read map[targets.Target]targets.Health
		if read, err = a.cloud.List(ctx, group, nil); err == nil {
			a.mu.Lock()
			a.inventory[group.ID] = inventory{sent, read, true}
			a.mu.Unlock()
		}
	case targets.Register:
		err = a.cloud.Register(ctx, group, call.Targets)
	case targets.Deregister:
		err = a.cloud.Deregister(ctx, group, targetsOf(call.Targets))
	}
	if err != nil {
		a.done(call, a.outcome(err), err.Error())
		return
	}
	a.done(call, targets.Accepted, "")
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
	a.calls.Done(time.Now(), call, outcome, why, rand.Float64())
	a.move()
	a.mu.Unlock()
	callsMade.WithLabelValues(call.Kind.String(), outcome.String()).Inc()
	a.ring()
}

// listGroups lists which groups there are, in the order of their IDs.
func (a *account) listGroups(ctx context.Context) ([]targets.Group, error) {
	groups, err := a.cloud.Groups(ctx)
	slices.SortFunc(groups, func(a, b targets.Group) int { return strings.Compare(a.ID, b.ID) })
	return groups, err
}

// group is one of those that were listed.
func (a *account) group(id string) (g targets.Group, known bool) {
	groups, _, _ := a.groups.known()
	at, known := slices.BinarySearchFunc(groups, id, func(g targets.Group, id string) int { return strings.Compare(g.ID, id) })
	if !known {
		return targets.Group{}, false
	}
	return groups[at], true
}

// observe fills in what is known of a group.
func (a *account) observe(s *targets.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.inventory[s.Group.ID]
	s.Registered, s.ReadAt, s.Live = held.targets, held.at, held.fresh
	s.Answers, s.Refused = a.calls.Answers(s.Group.ID), a.calls.Refused(s.Group.ID)
}

// plan has the calls of a decision made, of which the records are written.
func (a *account) plan(group string, d targets.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.inventory[group]
	held.fresh = false
	a.inventory[group] = held
	a.calls.Plan(group, d)
	a.move()
}

// forget drops the work of a group that nobody speaks of.
func (a *account) forget(group string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls.Forget(group)
	delete(a.inventory, group)
}

// failing is why calls to a group fail as a whole, empty while they do not.
func (a *account) failing(group string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
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
	if taken, ok := ctx.Value(tokenKey{}).(*bool); ok && *taken {
		*taken = false
		return nil
	}
	for {
		a.mu.Lock()
		at := a.calls.Take(time.Now())
		a.mu.Unlock()
		if !time.Now().Before(at) {
			return nil
		}
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
