package targets

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// desired is what all wants of one target come to.
type desired struct {
	Want
	// voluntary says whether what serves at the target goes on serving.
	voluntary bool
}

// desiredTargets joins the wants of each target. One that wants it in outweighs all that
// want it out; those that want it out count as seen, or as ending, when all are.
func desiredTargets(s GroupState) map[Target]desired {
	wants := slices.Clone(s.Wants)
	for i := range wants {
		if wants[i].Port == 0 {
			wants[i].Port = s.Group.Port
		}
	}
	slices.SortStableFunc(wants, compareWants)
	out := map[Target]desired{}
	for _, w := range wants {
		next := desired{Want: w, voluntary: !w.Ending || s.Now.Before(w.HookUntil)}
		first, more := out[w.Target]
		switch {
		case !more:
			out[w.Target] = next
		case !first.In:
			out[w.Target] = first.and(next)
		}
	}
	return out
}

func (w desired) and(o desired) desired {
	w.Seen = w.Seen && o.Seen
	w.Ending = w.Ending && o.Ending
	w.voluntary = w.voluntary || o.voluntary
	w.Borrowed = w.Borrowed || o.Borrowed
	w.HookUntil = later(w.HookUntil, o.HookUntil)
	return w
}

// compareWants puts those that want a target in first, and those that have it stay next.
func compareWants(a, b Want) int {
	in := func(w Want) int {
		switch {
		case w.In && !w.Stay:
			return 0
		case w.In:
			return 1
		}
		return 2
	}
	return cmp.Or(compareTargets(a.Target, b.Target), cmp.Compare(in(a), in(b)),
		strings.Compare(a.Owner, b.Owner), strings.Compare(a.Why, b.Why), strings.Compare(a.Zone, b.Zone))
}

func compareTargets(a, b Target) int {
	return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// unfit says why the group can never hold the target, or nothing.
func (g Group) unfit(t Target) string {
	address, err := netip.ParseAddr(t.ID)
	switch {
	case t.Port < 0 || t.Port > 65535 || t.Port == 0 && g.Balancer != Classic:
		return fmt.Sprintf("%d is not a port", t.Port)
	case g.Type == Instance && err == nil:
		return "the group's targets are instances, and this is an address"
	case !t.recordable():
		return fmt.Sprintf("%q is no id of a target", t.ID)
	case g.Type == Instance:
		return ""
	case err != nil:
		return "the group's targets are addresses, and this is none"
	case address.Is4In6() || address.Zone() != "" || address.String() != t.ID:
		return "the address is not in its canonical form, or has a zone"
	case address.Is6() && !g.IPv6:
		return "the group's addresses are IPv4, and this is IPv6: a group holds one family"
	case address.Is4() && g.IPv6:
		return "the group's addresses are IPv6, and this is IPv4: a group holds one family"
	}
	return ""
}

// String is ID:PORT, with brackets around an IPv6 address.
func (t Target) String() string {
	port := strconv.Itoa(int(t.Port))
	if strings.Contains(t.ID, ":") {
		return "[" + t.ID + "]:" + port
	}
	return t.ID + ":" + port
}

// String is ID:PORT, with brackets around an IPv6 address, and @ZONE where one is
// given: so it stands in records.
func (r Registration) String() string {
	if r.Zone == "" {
		return r.Target.String()
	}
	return r.Target.String() + "@" + r.Zone
}

// recordable reports whether what stands in records of the target is read as it again. What is
// not must never be ours, since nothing could be done any more in its group.
func (t Target) recordable() bool {
	r, err := ParseRegistration(t.String())
	return err == nil && r.Target == t
}

// ParseRegistration reads what String wrote, and nothing else.
func ParseRegistration(s string) (Registration, error) {
	var r Registration
	target, zone, _ := strings.Cut(s, "@")
	colon := strings.LastIndex(target, ":")
	port, err := strconv.ParseInt(target[colon+1:], 10, 32)
	if colon > 0 && err == nil {
		id := strings.TrimSuffix(strings.TrimPrefix(target[:colon], "["), "]")
		r = Registration{Target: Target{ID: id, Port: int32(port)}, Zone: zone}
	}
	if colon < 1 || r.String() != s {
		return Registration{}, fmt.Errorf("%q is no target: it is to be ID:PORT or ID:PORT@ZONE", s)
	}
	return r, nil
}
