package rollout

import (
	"time"
)

// answer is what a question comes to. Asking changes nothing: whoever goes by an answer takes
// what else it says into the decision, or into the verdict of a node.
type answer struct {
	yes bool
	// until is when the answer may be another one, zero where only an event can tell.
	until time.Time
	// why is what stands in the way and is to be reported, empty where nothing is.
	why Fault
	// asks says whether the API server has to be asked by a dry run first.
	asks bool
}

// no is an answer that is reported.
func no(reason, message string) answer { return answer{why: Fault{reason, message}} }

// over reports whether a deadline has passed, and had passed already when this controller looked a
// while ago. A controller that was frozen first sees the state from before, however often it looks
// right after it thaws; so what may cost something is done only when an earlier look agrees. A grace
// of which an answer tells the age, or another try, needs no such look.
func (p *pass) over(deadline time.Time) answer {
	switch {
	case p.Now.Before(deadline):
		return answer{until: deadline}
	case !p.Began.IsZero() && p.Looked.Before(deadline):
		return answer{until: p.Now.Add(lookAgain)}
	}
	return answer{yes: true}
}

// lookAgain is after how long what a deadline has ended is looked at once more.
const lookAgain = time.Second

// accepted reports whether the API server accepts a Deployment of the revision. Only
// the present template needs to be asked about.
func (p *pass) accepted(revision string) answer {
	switch {
	case revision != p.Revision:
		return answer{yes: true}
	case !p.DryRun.Done:
		return answer{asks: true}
	}
	return answer{yes: p.DryRun.Refusal == ""}
}

// not is the opposite, with all else that the answer says.
func (a answer) not() answer {
	a.yes = !a.yes
	return a
}

// sooner is the earlier of two moments, either of which may be zero for never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
