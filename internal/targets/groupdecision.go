package targets

import "time"

// GroupDecision is what to do about one group. Records are written first; without
// them none of the calls may be made.
type GroupDecision struct {
	// At is the time of the State that it was made from.
	At time.Time
	// Decided is when it was made, from which its age counts: At where it is zero.
	Decided time.Time
	// Records are all that are to be on record; nil where nothing changes.
	Records []Record
	// Sightings belong to the records, for the State of the next decision.
	Sightings map[Target]Sighting
	// Deregister and Register are idempotent calls, in the order of their targets.
	Deregister []Target
	Register   []Registration

	// Reports has every target that is wanted, on record or being taken out.
	Reports []Report
	// Faults are sentences about the group for a person.
	Faults []string

	// NeedLiveRead says whether a removal waits for an inventory read for it alone, NeedLists
	// whether one waits for the lists that Wants are made from to be complete, NeedZones for the
	// zones of all targets.
	NeedLiveRead, NeedLists, NeedZones bool
	// ReadAt is when the inventory should be read next.
	ReadAt time.Time
	// WakeAt is when to decide again though nothing was read or changed; zero for never.
	WakeAt time.Time
}

// whyOfCalls is what is told of the targets that the decision moves.
func (d GroupDecision) whyOfCalls() map[Target]string {
	if len(d.Register)+len(d.Deregister) == 0 {
		return nil
	}
	out := map[Target]string{}
	for _, t := range d.Deregister {
		out[t] = ""
	}
	for _, r := range d.Register {
		out[r.Target] = ""
	}
	for _, r := range d.Reports {
		if _, moves := out[r.Target]; moves {
			out[r.Target] = r.Message
		}
	}
	return out
}

// Phase is how far a target is on its way in or out.
type Phase string

const (
	// Registering: it is being registered, or its first health checks are under way.
	Registering Phase = "Registering"
	// Attached: it is healthy, or nothing can check it.
	Attached Phase = "Attached"
	// Failing: it is registered and gets no traffic; Message has the cloud's reason.
	Failing Phase = "Failing"
	// Held: it is to be taken out, and serves until that is safe.
	Held Phase = "Held"
	// Leaving: it is being taken out, and may still get new connections.
	Leaving Phase = "Leaving"
	// Stopped: no new connection comes any more; Evidence tells how that is known.
	Stopped Phase = "Stopped"
	// Refused: the cloud does not accept it, or never would.
	Refused Phase = "Refused"
	// Absent: it is not registered, and we have no part in that.
	Absent Phase = "Absent"
	// Foreign: somebody else registered it, and it is left alone.
	Foreign Phase = "Foreign"
)

// Evidence is how it is known that the traffic to a target has stopped.
type Evidence string

const (
	// FloorPassed: the load balancer's settle time has passed since it was seen out.
	FloorPassed Evidence = "FloorPassed"
	// SeenQuiet: the health checker of its node saw the last connection end after
	// it left, and none begin since.
	SeenQuiet Evidence = "SeenQuiet"
)

// Report is what is told of a target. A phase is not remembered: whoever acts on
// Stopped or Attached must write that down.
type Report struct {
	Target
	Owner string
	Phase Phase
	// Since and Until are zero where they are not known.
	Since, Until time.Time
	// Message is a sentence for a person.
	Message  string
	Evidence Evidence
}
