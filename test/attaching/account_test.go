package attaching

import (
	"context"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
)

// account is a leader's client of the cloud as a role.
type account struct {
	l      *leader
	r      *role
	before func(context.Context) error
}

// connect makes a client, or fails where the role cannot be assumed.
func (l *leader) connect(name string, before func(context.Context) error) (controller.Cloud, error) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.role(name)
	if r == nil || r.closed {
		return nil, errRefused
	}
	return &account{l, r, before}, nil
}

// send is all that a request goes through before it reaches the cloud: who sends it may
// be frozen, and must be there still.
func (a *account) send(ctx context.Context, what string) error {
	l, w := a.l, a.l.w
	l.thawed()
	w.mu.Lock()
	r := w.dice("%s sends %s %s", l.name, a.r.name, what)
	l.mayFreeze(r)
	w.mu.Unlock()
	l.thawed()
	if a.before != nil {
		// What is held back is sent right after that.
		if err := a.before(ctx); err != nil {
			return err
		}
	}
	w.mu.Lock()
	if w.crashes > 0 && !w.healed && r.Float64() < w.crashes/2 {
		l.die(between(r, time.Second, 20*time.Second), w.anyStale(r))
	}
	w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.alive()
}

func (a *account) Region() string { return region }

func (a *account) Groups(ctx context.Context) ([]targets.Group, error) { return a.list(ctx, "groups") }

func (a *account) Named(ctx context.Context, names []targets.GroupName) ([]targets.Group, error) {
	all, err := a.list(ctx, "named groups")
	return slices.DeleteFunc(all, func(g targets.Group) bool {
		return !slices.ContainsFunc(names, func(n targets.GroupName) bool { return n.Names(g) })
	}), err
}

func (a *account) Tags(ctx context.Context, groups []targets.Group) (map[string]map[string]string, error) {
	all, err := a.list(ctx, "tags", groups...)
	tags := map[string]map[string]string{}
	for _, g := range all {
		if slices.ContainsFunc(groups, func(o targets.Group) bool { return o.ID == g.ID }) {
			tags[g.ID] = g.Tags
		}
	}
	return tags, err
}

// Describe takes no time: the attributes are read with what is in the group.
func (a *account) Describe(_ context.Context, of targets.Group) (targets.Group, error) {
	a.l.w.mu.Lock()
	defer a.l.w.mu.Unlock()
	if g := a.find(of.ID); g != nil {
		return of.DescribedBy(g.Group), nil
	}
	return of, errNoGroup
}

// list is a request about which groups there are, and about the tags of some.
func (a *account) list(ctx context.Context, what string, tagged ...targets.Group) ([]targets.Group, error) {
	if err := a.send(ctx, what); err != nil {
		return nil, err
	}
	w := a.l.w
	w.mu.Lock()
	late := between(w.dice("%s lists %s", a.l.name, a.r.name), 20*time.Millisecond, 300*time.Millisecond) + a.r.slow
	w.mu.Unlock()
	if !w.wait(ctx, late) {
		return nil, errLost
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.r.blind || a.r.closed {
		return nil, errRefused
	}
	var out []targets.Group
	for _, g := range a.r.groups {
		if g.unlisted && what == "groups" {
			continue
		}
		told := g.Group
		switch {
		case slices.ContainsFunc(tagged, func(o targets.Group) bool { return o.ID == g.ID }):
			told.Tags = g.tell(a.l)
		case w.closes():
			// A list is without, as those of AWS are.
			told.Tags = nil
		}
		out = append(out, told)
	}
	return out, nil
}

func (a *account) find(id string) *group {
	for _, g := range a.r.groups {
		if g.ID == id {
			return g
		}
	}
	return nil
}

func (a *account) List(ctx context.Context, of targets.Group, _ []targets.Target) (map[targets.Target]targets.Health, error) {
	var out map[targets.Target]targets.Health
	err := a.call(ctx, targets.Read, of.ID, func(g *group, lag time.Duration) error {
		asOf := time.Now().Add(-lag)
		if asOf.Before(g.history[0].at) {
			asOf = g.history[0].at
		}
		out = g.list(asOf)
		if asOf.After(g.shown[a.l]) {
			g.shown[a.l] = asOf
			g.lists[a.l] = append(g.lists[a.l], listed{asOf, time.Now()})
		}
		return nil
	})
	return out, err
}

func (a *account) Register(ctx context.Context, of targets.Group, list []targets.Registration) error {
	return a.call(ctx, targets.Register, of.ID, func(g *group, _ time.Duration) error {
		for _, r := range list {
			g.w.say("%s registers %s with %s", a.l.name, r.Target, g.Name)
			g.register(r.Target, us)
		}
		return nil
	}, func(g *group) {
		for _, r := range list {
			g.w.audit.registers(a.l, g, r.Target)
		}
	})
}

func (a *account) Deregister(ctx context.Context, of targets.Group, list []targets.Target) error {
	return a.call(ctx, targets.Deregister, of.ID, func(g *group, _ time.Duration) error {
		for _, t := range list {
			g.w.say("%s deregisters %s from %s", a.l.name, t, g.Name)
			g.deregister(t, us)
		}
		return nil
	}, func(g *group) { g.w.audit.deregisters(a.l, g, list) })
}

// call carries out a call: it arrives late, may be refused or throttled, and its answer
// may be lost. What is done is done, whether or not who asked for it still waits.
func (a *account) call(ctx context.Context, kind targets.Kind, id string, do func(*group, time.Duration) error, sent ...func(*group)) error {
	if err := a.send(ctx, kind.String()+" "+id); err != nil {
		return err
	}
	w := a.l.w
	w.mu.Lock()
	g := a.find(id)
	if g == nil {
		w.mu.Unlock()
		return errNoGroup
	}
	r := w.dice("%s %s %s", a.l.name, kind, id)
	there, back := between(r, 10*time.Millisecond, 150*time.Millisecond), between(r, 10*time.Millisecond, 150*time.Millisecond)
	if kind != targets.Read && r.Float64() < w.scenario.lateCalls && !w.healed {
		there = between(r, time.Second, maxLate)
	}
	lost, lag := r.Float64() < w.scenario.lostAnswers && !w.healed, between(r, 0, maxLag)
	failure := g.fails[kind]
	if a.r.closed {
		failure = errRefused
	}
	if failure == nil {
		for _, note := range sent {
			note(g)
		}
	}
	w.mu.Unlock()
	if !w.wait(context.Background(), there) {
		return errLost
	}
	if failure != nil {
		return failure
	}
	w.mu.Lock()
	err := do(g, lag)
	if kind != targets.Read && !w.healed && r.Float64() < w.crashes {
		a.l.die(between(r, time.Second, 20*time.Second), w.anyStale(r))
	}
	w.mu.Unlock()
	if !w.wait(ctx, back) || lost {
		return errLost
	}
	if gone := a.l.alive(); gone != nil {
		return gone
	}
	return err
}
