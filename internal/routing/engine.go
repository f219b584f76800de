package routing

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// engine compiles units again when something that they read is another. Its invariant: what it holds
// is what a new engine would make of the same objects and the same last good certificates.
type engine struct {
	outcomes map[key]*outcome
	// readers are the units that read a fact, members what joined a unit or is in a list.
	readers, members map[key]map[key]bool
	dirty            map[key]bool
	published        map[target]publication
	warned           map[Event]map[key]bool
	statuses         map[key]*Status
	// Before the first change since the last Compile: what was published, whether it was warned.
	publishedBefore map[target]*wire.Resource
	warnedBefore    map[Event]bool
	statusesBefore  map[key]*Status
	// wakes are when units are compiled again though nothing changed.
	wakes map[key]time.Time
	now   time.Time
}

// outcome is what a unit comes to.
type outcome struct {
	// value is for units that read this one.
	value any
	// joins are units that this one is a member of.
	joins     []key
	resources []publication
	warnings  []Event
	status    *Status
	// waits says whether something has not been answered yet: the outcome before stays until it is.
	waits bool
	// wakeAt is when this would be another though nothing changed, zero for never.
	wakeAt time.Time
	reads  map[key]bool
}

// target is a resource of an IngressDaemonSet's proxies.
type target struct {
	set  types.NamespacedName
	kind wire.Kind
	name string
}

type publication struct {
	target
	by       key
	resource wire.Resource
}

func newEngine() engine {
	return engine{
		outcomes: map[key]*outcome{}, readers: map[key]map[key]bool{}, members: map[key]map[key]bool{}, dirty: map[key]bool{},
		published: map[target]publication{}, warned: map[Event]map[key]bool{}, statuses: map[key]*Status{},
		publishedBefore: map[target]*wire.Resource{}, warnedBefore: map[Event]bool{}, statusesBefore: map[key]*Status{},
		wakes: map[key]time.Time{},
	}
}

// Compile compiles what depends on objects that came, went or changed since the last time, or on the
// time, which must not go back. The same objects give the same result, in whatever order they came.
func (c *Compiler) Compile(now time.Time) Result {
	c.passTime(now)
	for f := defaultClassUnit; f < units; f++ {
		for _, k := range c.dirtyOf(f) {
			c.compile(k)
			c.forget(k)
		}
	}
	return c.result()
}

// forget forgets a Secret that nobody names any more.
func (c *Compiler) forget(k key) {
	if k.fact == wantedUnit && c.outcomes[k] == nil {
		delete(c.secrets, k.namespaced())
	}
}

// passTime has compiled again what the time makes another.
func (c *Compiler) passTime(now time.Time) {
	for k, at := range c.wakes {
		if !at.After(now) {
			c.soil(k)
		}
	}
	c.now = now
}

func (e *engine) dirtyOf(f fact) (out []key) {
	for k := range e.dirty {
		if k.fact == f {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// soil has a unit compiled at the next Compile, or later in this one.
func (e *engine) soil(k key) { e.dirty[k] = true }

// touch has compiled again what read a fact.
func (e *engine) touch(k key) {
	for reader := range e.readers[k] {
		e.soil(reader)
	}
}

// compile makes the outcome of a unit, and has compiled again what depends on it.
func (c *Compiler) compile(k key) {
	delete(c.dirty, k)
	before := c.outcomes[k]
	if before == nil {
		before = &outcome{}
	}
	v := &view{c: c, reads: map[key]bool{}}
	after := compilers[k.fact](v, k)
	there := after != nil
	switch {
	case !there:
		after = &outcome{}
	case after.waits:
		after = before.waiting(after)
		after.reads = v.reads
	default:
		after.reads = v.reads
	}
	c.index(k, before.reads, after.reads)
	c.outcomes[k] = after
	changed := !reflect.DeepEqual(before.value, after.value)
	if changed {
		c.touch(k)
	}
	c.join(k, before.joins, after.joins, changed)
	c.publish(k, before.resources, after.resources)
	c.warn(k, before.warnings, after.warnings)
	c.setStatus(k, after.status)
	c.setWake(k, after.wakeAt)
	if !there {
		delete(c.outcomes, k)
	}
}

func (e *engine) setWake(k key, at time.Time) {
	if at.IsZero() {
		delete(e.wakes, k)
	} else {
		e.wakes[k] = at
	}
}

// waiting is the outcome before, which also joins what the one that waits does.
func (o *outcome) waiting(next *outcome) *outcome {
	out := *o
	out.joins = append(slices.Clone(o.joins), next.joins...)
	slices.SortFunc(out.joins, compareKeys)
	out.joins = slices.Compact(out.joins)
	return &out
}

// index notes who reads what.
func (e *engine) index(k key, before, after map[key]bool) {
	for read := range before {
		if !after[read] {
			remove(e.readers, read, k)
		}
	}
	for read := range after {
		add(e.readers, read, k)
	}
}

// join notes whom a unit is a member of, and soils these.
func (e *engine) join(k key, before, after []key, changed bool) {
	stays := setOf(after)
	for _, joined := range before {
		if !stays[joined] {
			remove(e.members, joined, k)
			e.soil(joined)
		}
	}
	for _, joined := range after {
		if add(e.members, joined, k) || changed {
			e.soil(joined)
		}
	}
}

// list notes what is in a list.
func (e *engine) list(list, member key, in bool) {
	if in {
		add(e.members, list, member)
	} else {
		remove(e.members, list, member)
	}
}

func (e *engine) publish(k key, before, after []publication) {
	stay := make(map[target]bool, len(after))
	for _, p := range after {
		stay[p.target] = true
	}
	for _, p := range before {
		if e.published[p.target].by == k && !stay[p.target] {
			e.keepResource(p.target)
			delete(e.published, p.target)
		}
	}
	for _, p := range after {
		p.by = k
		e.keepResource(p.target)
		e.published[p.target] = p
	}
}

// keepResource keeps what was published at the last Compile, for comparison.
func (e *engine) keepResource(t target) {
	if _, kept := e.publishedBefore[t]; kept {
		return
	}
	e.publishedBefore[t] = nil
	if p, there := e.published[t]; there {
		e.publishedBefore[t] = &p.resource
	}
}

func (e *engine) warn(k key, before, after []Event) {
	lasts := setOf(after)
	for _, w := range append(slices.Clone(before), after...) {
		if _, kept := e.warnedBefore[w]; !kept {
			e.warnedBefore[w] = len(e.warned[w]) > 0
		}
		if lasts[w] {
			add(e.warned, w, k)
		} else {
			remove(e.warned, w, k)
		}
	}
}

func (e *engine) setStatus(k key, s *Status) {
	before := e.statuses[k]
	if before == nil && s == nil {
		return
	}
	if _, kept := e.statusesBefore[k]; !kept {
		e.statusesBefore[k] = before
	}
	e.statuses[k] = s
	if s == nil {
		delete(e.statuses, k)
	}
}

// result is the difference to the last Compile.
func (e *engine) result() Result {
	r := Result{Changes: e.changes(), Events: e.newEvents()}
	r.Statuses, r.Settled = e.newStatuses()
	for _, at := range e.wakes {
		if r.WakeAt.IsZero() || at.Before(r.WakeAt) {
			r.WakeAt = at
		}
	}
	clear(e.publishedBefore)
	clear(e.warnedBefore)
	clear(e.statusesBefore)
	return r
}

func (e *engine) changes() []Change {
	bySet := map[types.NamespacedName]*Change{}
	for t, before := range e.publishedBefore {
		p, there := e.published[t]
		if there && before != nil && reflect.DeepEqual(*before, p.resource) || !there && before == nil {
			continue
		}
		change := bySet[t.set]
		if change == nil {
			change = &Change{IngressDaemonSet: t.set}
			bySet[t.set] = change
		}
		if there {
			change.Changed = append(change.Changed, p.resource)
		} else {
			change.Removed = append(change.Removed, ResourceName{t.kind, t.name})
		}
	}
	var out []Change
	for _, set := range slices.SortedFunc(maps.Keys(bySet), compareNames) {
		sortResources(bySet[set].Changed)
		slices.SortFunc(bySet[set].Removed, func(a, b ResourceName) int {
			return cmp.Or(cmp.Compare(b.Kind, a.Kind), strings.Compare(b.Name, a.Name))
		})
		out = append(out, *bySet[set])
	}
	return out
}

func (e *engine) newStatuses() (out []Status, settled []Ref) {
	for k, before := range e.statusesBefore {
		if s := e.statuses[k]; s == nil && before != nil {
			settled = append(settled, before.Object)
		} else if s != nil && !reflect.DeepEqual(before, s) {
			out = append(out, *s)
		}
	}
	sortStatuses(out)
	slices.SortFunc(settled, compareRefs)
	return out, settled
}

func (e *engine) newEvents() (out []Event) {
	for w, before := range e.warnedBefore {
		if !before && len(e.warned[w]) > 0 {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, compareEvents)
	return out
}

// Resources are all that the proxies of an IngressDaemonSet are told, in the order of a Change.
func (c *Compiler) Resources(set types.NamespacedName) (out []wire.Resource) {
	for t, p := range c.published {
		if t.set == set {
			out = append(out, p.resource)
		}
	}
	sortResources(out)
	return out
}

// IngressDaemonSets are those whose proxies are told anything, in the order of their names.
func (c *Compiler) IngressDaemonSets() []types.NamespacedName {
	sets := map[types.NamespacedName]bool{}
	for t := range c.published {
		sets[t.set] = true
	}
	return slices.SortedFunc(maps.Keys(sets), compareNames)
}

// Warnings are all causes of events that last, in the order of their objects.
func (c *Compiler) Warnings() []Event {
	return slices.SortedFunc(maps.Keys(c.warned), compareEvents)
}

func sortResources(all []wire.Resource) {
	slices.SortFunc(all, func(a, b wire.Resource) int {
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), strings.Compare(a.Name, b.Name))
	})
}

func sortStatuses(all []Status) {
	slices.SortFunc(all, func(a, b Status) int { return compareRefs(a.Object, b.Object) })
}

func compareEvents(a, b Event) int {
	return cmp.Or(compareRefs(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}

// published is a resource that proxies are told.
func published(set types.NamespacedName, r wire.Resource) publication {
	return publication{target: target{set, r.Kind(), r.Name}, resource: r}
}

func add[K, M comparable](sets map[K]map[M]bool, k K, member M) (added bool) {
	if sets[k][member] {
		return false
	}
	if sets[k] == nil {
		sets[k] = map[M]bool{}
	}
	sets[k][member] = true
	return true
}

func remove[K, M comparable](sets map[K]map[M]bool, k K, member M) {
	delete(sets[k], member)
	if len(sets[k]) == 0 {
		delete(sets, k)
	}
}

func setOf[M comparable](all []M) map[M]bool {
	out := make(map[M]bool, len(all))
	for _, m := range all {
		out[m] = true
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
