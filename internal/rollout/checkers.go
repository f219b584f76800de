package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// applyCheckers creates the health checkers at once, but replaces or deletes
// them only while no node is in the middle of its update: a checker must not be
// exchanged while its answer is what keeps traffic away from a node. Somebody may have said
// that a port which was removed is to be closed at once. One whose port an
// older IngressDaemonSet has come to answer too stays: without it a whole fleet would fail
// its checks for one node that both have.
func (p *planner) applyCheckers() {
	if p.unclear() {
		return
	}
	idle := !slices.ContainsFunc(p.views, func(v view) bool { return p.needsCheckers(&v) })
	for _, c := range p.Checkers {
		switch {
		case c.Taken && !c.Exists:
		case c.Wanted && !c.Exists:
			p.do(Step{Action: ApplyChecker, Port: c.Port, Reason: "it does not exist"})
		case !c.Wanted && c.Exists:
			p.retire(c, idle)
		case c.Exists && c.Outdated && idle:
			p.do(Step{Action: ApplyChecker, Port: c.Port, Reason: "its template changed"})
		}
	}
}

// retire closes a port that is not in the spec any more, once nobody needs it.
func (p *planner) retire(c Checker, idle bool) {
	unused := answer{}
	if idle {
		unused = p.mayClose(c.Port)
	}
	p.take(unused)
	switch {
	case unused.yes || p.ReleasedPorts[c.Port]:
		p.do(Step{Action: DeleteChecker, Port: c.Port, Reason: "its port is not in the spec any more"})
	case c.Outdated && idle:
		p.do(Step{Action: ApplyChecker, Port: c.Port, Reason: "its template changed"})
	}
}

// unclear reports whether it cannot be told which nodes are wanted: health checkers that are
// placed by the same spec could leave all of them.
func (p *pass) unclear() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Reason == v1alpha1.ReasonInvalidSpec })
}

// needsCheckers reports whether the health checkers of a node must stay as they are.
// A node whose pods are complete may be waiting for nothing but a better
// checker, and so are one that is to be updated again and one that is yet to be marked because
// it leaves the set; one that is drained or served nothing when it was marked may have nothing
// that traffic could reach.
func (p *pass) needsCheckers(v *view) bool {
	d := v.Deployment
	switch {
	case d == nil || !v.Exists, !v.Ready, v.keptOut():
		// The new checker of one that is dead, or out for as long as somebody likes, fails
		// until it has read the mark.
		return false
	case v.Marked():
		// What somebody else set may stay for as long as they like, too.
		_, ours := v.markedAt()
		return ours && (!v.drained() && !v.outOfTurn() || v.readyPods() > 0)
	case !p.wave[v.Name] || !v.Wanted || p.outdated(v):
		return false
	}
	done, _, _ := v.complete(p.Now, p.minReady())
	return !done
}

// checkersCurrent reports whether no health checker waits to be replaced. While one
// does, no further node starts, so that its turn comes.
func (p *pass) checkersCurrent() bool {
	return !slices.ContainsFunc(p.Checkers, func(c Checker) bool { return c.Wanted && (!c.Exists || c.Outdated || c.Taken) })
}

// mayClose reports whether nobody needs a retiring port: no load balancer asks it on any node,
// and no pod asks it before it stops.
func (p *pass) mayClose(port int32) answer {
	for i := range p.views {
		v := &p.views[i]
		if !v.Exists {
			continue
		}
		hooked := p.Spec.DrainHook != nil && v.Deployment != nil && v.Deployment.Revision != p.Revision
		if hooked {
			return answer{}
		}
		if known := p.known(v); !known.yes {
			return known
		}
		if unasked := p.unasked(v, port); !unasked.yes {
			return unasked
		}
	}
	return answer{yes: true}
}

// known reports whether somebody can know who asks the node. Nobody does where its Deployment is yet
// to be made, also because somebody deleted it. One that is dead may return for as long as it
// counts as asked.
func (p *pass) known(v *view) answer {
	switch {
	case v.Deployment != nil || !v.Wanted:
		return answer{yes: true}
	case v.Ready:
		return answer{}
	}
	return p.over(later(p.Began, v.seen.Ready).Add(quietAfter))
}

// unasked reports whether nobody asks the health-check port of the node any more. Of one that does not
// answer nobody knows. Where the node is dead, or nobody is left behind the port, that ends
// when it has been so for as long as a port that answers must be quiet: a machine that is
// cut off from us may still be asked by others, and slowly answer.
func (p *pass) unasked(v *view, port int32) answer {
	for _, c := range v.Checks {
		switch {
		case c.Port != port || c.Quiet:
			continue
		case c.Answered || v.Ready && !c.silenced():
			return answer{}
		}
		if silent := p.over(p.silentSince(v, c).Add(quietAfter)); !silent.yes {
			return silent
		}
	}
	return answer{yes: true}
}

// silentSince is since when it is known that a port does not answer, and that nobody is left
// behind it, or else how the node is.
func (p *pass) silentSince(v *view, c Check) time.Time {
	since := later(later(c.Since, c.SeenSilenced), p.Began)
	if c.silenced() {
		return since
	}
	return later(since, v.seen.Ready)
}

// quietAfter is for how long nobody must have asked a port that is closed (docs/adr/0006).
const quietAfter = 5 * time.Minute

// warnOfCheckers reports health-check ports that were removed and are still asked, or of which
// that is not known, and health checkers that cannot see what they should.
func (p *pass) warnOfCheckers() (warnings []Fault, until time.Time) {
	asked, silent := map[int32]bool{}, map[int32]bool{}
	for i := range p.views {
		v := &p.views[i]
		for _, c := range v.Checks {
			switch silence := p.keepsSilent(v, c); {
			case !c.Retiring:
			case c.AskedBy != "" && !c.Quiet && !asked[c.Port]:
				asked[c.Port] = true
				warnings = append(warnings, Fault{v1alpha1.ReasonHealthCheckPortAsked, fmt.Sprintf(
					"port %d is not in healthCheckNodePorts any more, and %s still asks it, such as on node %s: point its health checks at a port of the spec, or close it at once by kubectl ids port release NAME %d", c.Port, c.AskedBy, v.Name, c.Port)})
			case silent[c.Port]:
			case !silence.yes:
				until = sooner(until, silence.until)
			default:
				silent[c.Port] = true
				warnings = append(warnings, Fault{v1alpha1.ReasonHealthCheckPortSilent, fmt.Sprintf(
					"port %d is not in healthCheckNodePorts any more, and stays because it does not answer the controller, such as on node %s, so that nobody knows who asks it: look at its health checker there and at what is between it and the controller, or close it at once by kubectl ids port release NAME %d", c.Port, v.Name, c.Port)})
			}
			if c.Blind != "" {
				warnings = append(warnings, Fault{v1alpha1.ReasonHealthCheckerBlind, fmt.Sprintf("the health checker of port %d on node %s cannot read the API server: %s", c.Port, v.Name, c.Blind)})
			}
		}
	}
	return warnings, until
}

// keepsSilent reports whether a port does not answer for so long, although its node is Ready and a
// health checker is there, or somebody listens, that it is not only starting. That may go on for
// ever: load balancers may reach it where the controller does not, and so it is not closed.
func (p *pass) keepsSilent(v *view, c Check) answer {
	if c.Answered || c.silenced() || !v.Exists || !v.Ready {
		return answer{}
	}
	return p.over(p.silentSince(v, c).Add(quietAfter))
}
