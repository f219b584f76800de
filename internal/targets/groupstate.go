package targets

import "time"

// State is everything that a decision about one group is made from.
type GroupState struct {
	Now   time.Time
	Group Group
	// Whole says whether every target of the group is ours; otherwise those are
	// that are on record.
	Whole bool
	// SettleTime is how long this kind of load balancer may send new connections to a
	// target after it was deregistered. See DefaultSettleTime. SettleTimes are those of targets for which
	// somebody asks otherwise.
	SettleTime  time.Duration
	SettleTimes map[Target]time.Duration

	// Wants are what is to be in the group and what is to be out, in any order.
	Wants []Want
	// Synced says whether the lists that Wants were made from are complete. An
	// incomplete list proves no absence. Unsynced are targets for which they are not all the same.
	Synced   bool
	Unsynced map[Target]bool
	// Vacant are targets on record at whose address no pod lives that anybody may have meant: what
	// answers there is somebody else's, or nothing.
	Vacant map[Target]bool
	// Records survive a crash.
	Records []Record

	// Registered is the inventory: what the cloud listed, by a read that was sent
	// at ReadAt, which is zero where none was answered yet. A target that is not
	// in it is not registered.
	Registered map[Target]Health
	ReadAt     time.Time
	// ZonesBehind says whether targets of which no zone is known may have one all the same.
	ZonesBehind bool
	// Live says whether the inventory was read for this decision, while no call of
	// ours to the group was under way.
	Live bool

	// Answers are the last calls for each target that were decided since this
	// process began, and Refused what the cloud refused. Calls keeps both; to lose
	// them costs calls that were made already, and nothing else.
	Answers map[Target]Answer
	Refused []Refusal

	// Quiet is what the health checkers of the targets' nodes told last. It has no
	// entry where nobody looks.
	Quiet map[Target]Quiet

	// Sightings are those of the last decision of this process. To lose them makes
	// what left wait anew.
	Sightings map[Target]Sighting
}

// Sighting is since when this process has known what a record says, by its own clock:
// the times on record may be another leader's, whose clock says nothing of how long
// ago that was. Of what somebody else takes out nothing is on record: another leader that
// has not seen it drain does not wait for it.
type Sighting struct {
	// LeftAt and QuietAt are what is on record.
	LeftAt, QuietAt time.Time
	// Left and Quiet are since when that has been known.
	Left, Quiet time.Time
}

// unrecorded is since when it is known of what is on no record that it left, zero for what was: a
// record is forgotten when its time is over.
func (s Sighting) unrecorded() time.Time {
	if s.LeftAt.IsZero() {
		return s.Left
	}
	return time.Time{}
}

// Want is what one user of a group, such as a pod or a node, wants of a target.
// A target that is wanted more than once is in while any of them wants it in.
type Want struct {
	// Registration has Port 0 for the group's own.
	Registration
	// Owner is who wants it. It is only passed on, to Records and Reports.
	Owner string
	// In says whether the target is to be registered; otherwise it is to be out.
	In bool
	// Why is a clause for a person.
	Why string
	// Stay says whether the target is only to stay as it is, because what serves there is
	// there still and its port is not known: it is put back where it was taken out, and
	// otherwise not registered.
	Stay bool

	// Seen says whether what ends it was seen: a pod that terminates or failed, a
	// node with a reason. What is only missing from a list is not.
	Seen bool
	// Ending says whether what serves at the target ends whatever we do, so that no
	// minimum can hold the removal back, unless a drain hook still holds the pod:
	// that is until HookUntil, zero for none.
	Ending    bool
	HookUntil time.Time

	// Borrowed says whether the target may be somebody else's. It is put on record
	// when it is taken out, put back only where it is on record, and is theirs
	// again when it is attached. Whoever borrows wants it, out or in, until then:
	// one that no want names any more is taken out if that had begun, and forgotten.
	Borrowed bool
}

// Record is what must not be forgotten of a target. It is there before the call
// that makes the target ours, or takes one out, and until the target is seen not
// registered, or is somebody else's.
type Record struct {
	Registration
	Owner string
	// Leaving says whether it was decided to take the target out. It stays until the
	// target is seen registered after it was put back.
	Leaving bool
	// LeftAt is when it was first seen draining or not registered after the cloud
	// accepted its deregistration, in whole seconds, rounded up; zero until then.
	LeftAt time.Time
	// Settled says whether it was seen draining, and wanted by nobody, when no call of
	// ours could register it any more: who does after that is somebody else.
	Settled bool
	// QuietAt is when its node was told to be quiet after it left and while nothing
	// but the settle time was waited for, in whole seconds, rounded up; zero until then. It
	// is on record since nobody asks about the node any more afterwards.
	QuietAt time.Time
}

// Answer is the last call decided for a target.
type Answer struct {
	// Register says whether it registers; otherwise it deregisters.
	Register bool
	// At is when the cloud accepted it; zero while it has not.
	At time.Time
	// Times is how often the same call was accepted without a break.
	Times int
	// last is when one was accepted, also while At is zero again.
	last time.Time
}

// accepts reports whether the cloud accepted a call of this kind, and it was the last.
func (a Answer) accepts(register bool) bool { return a.Register == register && !a.At.IsZero() }

// Refusal is a target that the cloud refused by itself.
type Refusal struct {
	Target
	// Register says whether its registration was refused, and not the reverse.
	Register bool
	// Full says whether it was refused because the group, or the load balancer, holds no more.
	Full bool
	// Why is the cloud's message.
	Why string
	// Since is the first refusal without a break, At the last one, Times how many.
	Since, At time.Time
	Times     int
}

// synced reports whether the lists that a target may be missing from are complete.
func (s *GroupState) synced(t Target) bool { return s.Synced && !s.Unsynced[t] }

// settleTimeOf is how long the load balancer may send new connections to a target that left.
func (s *GroupState) settleTimeOf(t Target) time.Duration {
	if settle, any := s.SettleTimes[t]; any {
		return settle
	}
	return s.SettleTime
}

// DefaultSettleTime is how long a load balancer of the kind may send new connections
// to a target that was deregistered, where nothing else is configured. An NLB was
// reported to do so for 120 to 300 s, whatever its API says of the target
// (kubernetes-sigs/aws-load-balancer-controller#1834 and #2366). For the others
// nothing is published: 30 s is a guess on the safe side.
func DefaultSettleTime(b Balancer) time.Duration {
	if b == Network {
		return 300 * time.Second
	}
	return 30 * time.Second
}

// quietFor is for how long no connection must have come to a target, with none left.
const quietFor = 10 * time.Second

// Quiet is what a health checker told of the connections to the port of a target.
type Quiet struct {
	// Came is when a new one last came, at the earliest; zero where none was seen to.
	Came time.Time
	// From and To bound a time in which none came, and at the end of which none was
	// open. They are zero while one is open, or nothing is known.
	From, To time.Time
}

// Long reports whether none came for long enough.
func (q Quiet) Long() bool { return q.To.Sub(q.From) >= quietFor }

// since reports whether new connections came after a target left, and none for long enough since.
// Without the first there may only be nobody who comes.
func (q Quiet) since(leftAt time.Time) bool {
	return q.Long() && !q.Came.Before(leftAt) && !q.From.Before(leftAt)
}

// place is where the inventory has a target.
type place int

const (
	unread place = iota
	absent
	registered
	draining
)

func (h Health) zoned() bool { return h.Zone != "" && h.Zone != anyZone }

// serves reports whether the load balancer sends new connections to the target because
// it holds it for healthy.
func (h Health) serves() bool { return h.healthy() && !h.Shifted }

// placeIn is where an inventory that was read has a target. Draining is told by the reason,
// since the condition is spelled in more than one way.
func placeIn(inventory map[Target]Health, t Target) place {
	h, listed := inventory[t]
	switch {
	case !listed || h.Reason == NotRegistered:
		return absent
	case h.Reason == DeregistrationInProgress || h.Condition == Draining:
		return draining
	}
	return registered
}
