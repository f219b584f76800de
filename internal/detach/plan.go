package detach

import (
	"cmp"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Decision is what to do next.
type Decision struct {
	// Nodes are those that are not simply attached, by name.
	Nodes []NodeDecision
	// WakeAt is when to look again where no event tells; zero where there is none.
	WakeAt time.Time
}

// Phase is how far a node is on its way out of its load balancers and back.
type Phase string

// Phases of a node.
const (
	// Attached: nothing is to be done.
	Attached Phase = "Attached"
	// Held: a reason holds, but too few nodes would stay attached.
	Held Phase = "Held"
	// Detaching: its targets leave.
	Detaching Phase = "Detaching"
	// Detached: its traffic has stopped.
	Detached Phase = "Detached"
	// Attaching: its targets return.
	Attaching Phase = "Attaching"
	// Gone: its Node object is not there, and its Attachment waits for its return.
	Gone Phase = "Gone"
)

// Write is what to do with the node's Attachment.
type Write string

// Writes of an Attachment.
const (
	Keep Write = ""
	// WriteDetach and WriteAttach say where the targets are to be, and of which machine.
	// They come after the marks, so that nothing is out, or returns, of which the Node says
	// otherwise.
	WriteDetach Write = "Detach"
	WriteAttach Write = "Attach"
	// Delete comes last.
	Delete Write = "Delete"
)

// NodeDecision is what to do about one node.
type NodeDecision struct {
	Name  string
	Phase Phase
	// Reason is why it is to be out, empty where nothing is.
	Reason Reason
	// Waits says in a sentence what it waits for.
	Waits string

	Patch      *Patch
	Attachment Write
	// Ask are the webhooks to be asked now, for what the Attachment says.
	Ask []string
	// Stop are pods to be stopped now.
	Stop []Pod
	// Status is what the Attachment is to say where nobody else answers in it, nil where it says so.
	Status *v1alpha1.AttachmentStatus
	// Gone is for how long to record that the Node has been gone, nil where nothing changes.
	Gone *time.Duration
	// Returning are pods that would come back if they were stopped.
	Returning []Pod
}

// Plan decides. It is deterministic.
func Plan(s State) Decision {
	p := &planner{State: s}
	p.Nodes = slices.SortedFunc(slices.Values(p.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	p.countAttached()
	for i := range p.Nodes {
		p.node(&p.Nodes[i])
	}
	return p.out
}

type planner struct {
	State
	out Decision
	// attached is how many nodes would be left attached, minAttached how many must be.
	attached, minAttached int
}

// wake asks for another look at a moment.
func (p *planner) wake(at time.Time) {
	if p.out.WakeAt.IsZero() || at.Before(p.out.WakeAt) {
		p.out.WakeAt = at
	}
}
