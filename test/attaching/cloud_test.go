package attaching

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

const (
	// maxLag is how far lists lag behind what was answered, maxLate how long after it
	// was sent a call may still take effect.
	maxLag  = 2 * time.Second
	maxLate = 5 * time.Second
)

// settleTimeOf is how long load balancers here may send new connections to what was
// deregistered: less than anywhere else, since virtual time costs real time, too.
func settleTimeOf(b targets.Balancer) time.Duration {
	if b == targets.Network {
		return 60 * time.Second
	}
	return 20 * time.Second
}

// role is an account of the cloud as one role, and what is wrong with it.
type role struct {
	name   string
	groups []*group
	// closed says whether the role cannot be assumed, blind whether groups cannot be
	// listed, slow how much longer that takes.
	closed, blind bool
	slow          time.Duration
	// opened is when it last began to be neither closed nor blind.
	opened time.Time
}

// listsAgain is longer than it takes to list groups once more where that failed.
const listsAgain = 20 * time.Second

// opens ends that the role is closed, or blind.
func (r *role) opens(what *bool) {
	*what = false
	r.opened = time.Now()
}

// openSince reports whether its groups can be listed, and could all the time since a moment.
func (r *role) openSince(at time.Time) bool { return !r.closed && !r.blind && !r.opened.After(at) }

// group is the truth about a target group and its load balancer, as bad as they may be.
type group struct {
	targets.Group
	w       *world
	role    *role
	members map[targets.Target]*membership
	history []moment
	// fails is what calls of a kind answer, for as long as it stands there.
	fails map[targets.Kind]error
	// shown is when what the last list showed was so, by leader, and lists what each showed lately.
	shown map[*leader]time.Time
	lists map[*leader][]listed
	// closed says whether its tag names another namespace than the one there is, told when a
	// leader was told so first.
	closed bool
	told   map[*leader]time.Time
	// opened is when it was last opened again.
	opened time.Time
	// unlisted says whether lists of all groups leave it out, relisted when they last began not to.
	unlisted bool
	relisted time.Time
}

// listed is a list: as of when it is, and when it was sent.
type listed struct{ asOf, sent time.Time }

// moment is what a group held from then on.
type moment struct {
	at      time.Time
	members map[targets.Target]membership
}

// membership is the truth about a target.
type membership struct {
	in, draining        bool
	healthyAt, drainEnd time.Time
	// routesUntil is until when it gets new connections after it was deregistered.
	routesUntil time.Time
	// by is who registered it last, outBy who deregistered it, and when.
	by, outBy string
	// outOf is the node that it was on when it was taken out.
	outOf       string
	inAt, outAt time.Time
	// theirs says whether somebody else registered it first, and wants it there.
	theirs bool
}

const (
	us   = "us"
	them = "them"
)

var (
	errThrottled = errors.New("Throttling: rate exceeded")
	errInvalid   = errors.New("InvalidTarget: the target is not valid")
	errRefused   = errors.New("AccessDenied: not authorized")
	errLost      = errors.New("the answer was lost")
	errGone      = errors.New("the controller is gone")
	errNoGroup   = errors.New("TargetGroupNotFound: there is no such target group")
)

func outcomeOf(err error) targets.Outcome {
	switch {
	case errors.Is(err, errThrottled):
		return targets.Throttled
	case errors.Is(err, errInvalid):
		return targets.Invalid
	case errors.Is(err, errNoGroup):
		return targets.Gone
	}
	return targets.Failed
}

func (w *world) groups() []*group {
	var out []*group
	for _, r := range w.roles {
		out = append(out, r.groups...)
	}
	return out
}

func (w *world) role(name string) *role {
	for _, r := range w.roles {
		if r.name == name {
			return r
		}
	}
	return nil
}

func (w *world) addGroup(r *role, g targets.Group) *group {
	added := &group{Group: g, w: w, role: r, members: map[targets.Target]*membership{}, fails: map[targets.Kind]error{}, shown: map[*leader]time.Time{}, lists: map[*leader][]listed{}, told: map[*leader]time.Time{}}
	r.groups = append(r.groups, added)
	added.note()
	return added
}

func (g *group) describe() string {
	var out []string
	for _, t := range g.all() {
		m := g.members[t]
		word := "in"
		if m.draining {
			word = "drains"
		} else if !m.in {
			word = "out"
		}
		out = append(out, fmt.Sprintf("%s %s by %s routes %t healthy %t", t, word, m.by, g.routes(t), g.healthy(t)))
	}
	return strings.Join(out, ", ")
}

func compareTargets(a, b targets.Target) int { return strings.Compare(a.String(), b.String()) }

// all are the targets that it holds, or held, in order.
func (g *group) all() []targets.Target {
	return slices.SortedFunc(maps.Keys(g.members), compareTargets)
}

// note keeps what the group holds now for lists that lag.
func (g *group) note() {
	now := time.Now()
	held := map[targets.Target]membership{}
	for t, m := range g.members {
		held[t] = *m
	}
	g.history = append(g.history, moment{now, held})
	for len(g.history) > 1 && now.Sub(g.history[1].at) > maxLag {
		g.history = g.history[1:]
	}
}

// entry is what stands in the group for a target: a classic load balancer has an instance
// once, at its own port, whatever port anybody gives it.
func (g *group) entry(t targets.Target) targets.Target {
	if g.Balancer == targets.Classic {
		t.Port = g.Port
	}
	return t
}

func (g *group) register(t targets.Target, by string) {
	t = g.entry(t)
	m := g.members[t]
	if m == nil {
		m = &membership{theirs: by == them}
		g.members[t] = m
	}
	if m.in && !m.draining {
		return
	}
	if by == them {
		m.theirs = true
	}
	m.in, m.draining, m.by, m.inAt = true, false, by, time.Now()
	m.healthyAt = time.Now().Add(between(g.w.dice("healthy %s %s", g.ID, t), 0, 30*time.Second))
	g.note()
}

func (g *group) deregister(t targets.Target, by string) {
	m := g.members[t]
	if m != nil && m.by == them && m.outBy == them && by == us && time.Since(m.outAt) < readEvery {
		// Lists lag: who takes it out in the same moment is not told from who does not.
		m.theirs = true
	}
	if m == nil || !m.in || m.draining {
		return
	}
	now := time.Now()
	m.outBy, m.outAt, m.outOf = by, now, g.w.audit.on[t.ID]
	m.routesUntil = now.Add(between(g.w.dice("routes %s %s", g.ID, t), 0, g.w.settleTime(g.Balancer)))
	m.draining, m.drainEnd = true, now.Add(g.Delay)
	if by == them && !g.w.audit.heldBy(place{g, t}) {
		// What an Attachment has on record yet is put back for them once more: that they took it out
		// nobody can tell from a put-back that was lost.
		m.theirs = false
	}
	g.note()
}

// at is where the target is at a moment: what has drained is gone.
func (m membership) at(now time.Time) (listed, in bool) {
	return m.in && !(m.draining && !now.Before(m.drainEnd)), m.in && !m.draining
}

// holds reports whether the target is registered, and not on its way out.
func (g *group) holds(t targets.Target) bool {
	m := g.members[t]
	return m != nil && m.in && !m.draining
}

// routes reports whether the load balancer may send the target a new connection.
func (g *group) routes(t targets.Target) bool {
	m := g.members[t]
	return m != nil && (g.holds(t) || time.Now().Before(m.routesUntil))
}

func (g *group) healthy(t targets.Target) bool {
	return g.holds(t) && !time.Now().Before(g.members[t].healthyAt) && g.w.answers(g, t)
}

// list is what the cloud says that it was at a moment.
func (g *group) list(at time.Time) map[targets.Target]targets.Health {
	members := g.history[0].members
	for _, m := range g.history {
		if !m.at.After(at) {
			members = m.members
		}
	}
	out := map[targets.Target]targets.Health{}
	for t, m := range members {
		if listed, _ := m.at(at); listed && !(m.draining && g.Balancer == targets.Classic) {
			// A classic load balancer shows what drains only to those who ask for it by name.
			out[t] = g.health(t, m, at)
		}
	}
	return out
}

func (g *group) health(t targets.Target, m membership, at time.Time) targets.Health {
	h := targets.Health{Condition: targets.Unhealthy, Reason: "Target.FailedHealthChecks"}
	if g.Type == targets.IP {
		// Of instances the cloud does not tell it.
		h.Zone = g.w.zoneOf(t)
	}
	switch {
	case m.draining:
		h.Condition, h.Reason = targets.Draining, targets.DeregistrationInProgress
	case at.Before(m.healthyAt):
		h.Condition, h.Reason = targets.Initial, targets.RegistrationInProgress
	case g.w.answers(g, t):
		h.Condition, h.Reason = targets.Healthy, ""
	}
	return h
}

// zoneOf is where what serves at a target is, empty for machines that are no Node's.
func (w *world) zoneOf(t targets.Target) string {
	if n := w.node(w.audit.on[t.ID]); n != nil {
		return n.zone
	}
	return ""
}

// answers reports whether what serves at a target answers a health check.
func (w *world) answers(g *group, t targets.Target) bool {
	if g.Type == targets.IP {
		// One that has failed keeps its address, which another may have by now.
		at := func(p *pod) bool { return p.address == t.ID }
		serves := func(p *pod) bool { return at(p) && p.serves && p.port == t.Port }
		return slices.ContainsFunc(w.pods, serves) || strings.HasPrefix(t.ID, "10.9.") && !slices.ContainsFunc(w.pods, at)
	}
	for _, n := range w.nodes {
		if n.instance != t.ID || n.gone {
			continue
		}
		if t.Port == nodePort || t.Port == foreignPort {
			return true
		}
		return slices.ContainsFunc(w.pods, func(p *pod) bool { return p.node == n.name && p.takes(t.Port) && p.serves })
	}
	return false
}

const (
	// nodePort is answered by whatever machine there is, foreignPort is somebody else's.
	nodePort    = 30080
	foreignPort = 9999
)

// isStuck reports whether nobody can know what is in the group, or take it out.
func (g *group) isStuck() bool {
	return g.fails[targets.Read] != nil || g.fails[targets.Deregister] != nil
}

// tell is what a leader is told of the group's tags.
func (g *group) tell(l *leader) map[string]string {
	if !g.closed {
		return g.Tags
	}
	if g.told[l].IsZero() {
		g.told[l] = time.Now()
	}
	tags := maps.Clone(g.Tags)
	tags[targets.NamespacesTag] = "another"
	return tags
}

// close gives a group to another namespace, or opens it to all.
func (g *group) close(closed bool) {
	g.closed = closed
	if !closed {
		g.opened = time.Now()
	}
	clear(g.told)
	g.w.say("%s is closed: %t", g.Name, closed)
}

// tagsAge is how old tags may be that a leader goes by: they are read once a minute, and lists may be
// late.
const tagsAge = 4 * time.Minute

// seemsClosed reports whether somebody may take the group for closed, be it by tags of before.
func (g *group) seemsClosed() bool {
	return g.closed || !g.opened.IsZero() && time.Since(g.opened) < tagsAge
}
