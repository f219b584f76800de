package targets

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Decision is what to do next. All of it is values; whoever carries it out writes
// statuses and hooks first, and makes a call only when what it needs is written.
type Decision struct {
	// Attachments and NodeAttachments have each object of the State, in order.
	Attachments     []AttachmentDecision
	NodeAttachments []NodeAttachmentDecision
	// Hooks and Gates are what to write on pods.
	Hooks []HookWrite
	Gates []GateWrite
	// Groups are those in which somebody has a part. Of all others nothing is to be
	// done, and what is queued for them is dropped.
	Groups []GroupPlan
	// Accounts are those that are needed, all others are to be left.
	Accounts []AccountPlan
	// CatchUpNodes asks for all Nodes to be known: something waits for the zones that they tell.
	CatchUpNodes bool
	// Ask are the nodes whose health checkers are asked for connections.
	Ask []string
	// WakeAt is when to decide again though nothing was read or changed; zero for never.
	WakeAt time.Time
	Memory Memory
}

// longestDecision is how long a decision may take to be made. One that took longer is one of a process
// that was frozen meanwhile, for all that is known.
const longestDecision = 30 * time.Second

// Date has the age of a decision count from when it was made, since one about many groups may take
// longer than a decision may be old. It is an error where it took too long: then its calls are not made.
func (d *Decision) Date(observed, made time.Time) error {
	took, set := made.Sub(observed), made.Round(0).Sub(observed.Round(0)).Abs()
	if took = max(took, set); took > longestDecision {
		return fmt.Errorf("it took %s to decide, and what was seen then counts for %s: no target is registered or taken out", took.Round(time.Second), longestDecision)
	}
	for i := range d.Groups {
		d.Groups[i].Decided = made
	}
	return nil
}

// AttachmentDecision is what becomes of a TargetGroupAttachment.
type AttachmentDecision struct {
	Object *v1alpha1.TargetGroupAttachment
	// Status is the whole status that it is to have.
	Status v1alpha1.TargetGroupAttachmentStatus
	// AddFinalizer comes before the status: nothing is registered before it is sure to
	// be deregistered. Release, the end of the finalizer, comes after it.
	AddFinalizer, Release bool
	// CatchUp asks for all that it selects to be known: something that is missing waits for that.
	CatchUp bool
	// Events are what to tell when the status is written.
	Events []Event
}

// NodeAttachmentDecision is what becomes of an Attachment.
type NodeAttachmentDecision struct {
	Object *v1alpha1.Attachment
	Status v1alpha1.AttachmentStatus
}

// Event is a warning about an object.
type Event struct{ Reason, Action, Message string }

// HookWrite is what a drain hook is to read on its pod.
type HookWrite struct {
	Pod *corev1.Pod
	// In says whether traffic may come to it as a target.
	In bool
}

// GateWrite is what a readiness gate is to say.
type GateWrite struct {
	Pod       *corev1.Pod
	Condition corev1.PodCondition
}

// GroupPlan is the work in one group.
type GroupPlan struct {
	// Role is as whom it is reached.
	Role v1alpha1.AssumeRole
	ID   string
	GroupDecision
	// Needs are, by target, what must be written before a call about it.
	Needs map[Target][]Ref
}

// After is the decision without the calls that need what is not written.
func (g GroupPlan) After(written func(Ref) bool) GroupDecision {
	d := g.GroupDecision
	ready := func(t Target) bool {
		for _, ref := range g.Needs[t] {
			if !written(ref) {
				return false
			}
		}
		return true
	}
	d.Deregister, d.Register = nil, nil
	for _, t := range g.Deregister {
		if ready(t) {
			d.Deregister = append(d.Deregister, t)
		}
	}
	for _, r := range g.Register {
		if ready(r.Target) {
			d.Register = append(d.Register, r)
		}
	}
	return d
}

// AccountPlan is what an account is needed for.
type AccountPlan struct {
	Role v1alpha1.AssumeRole
	// List asks for a list of its groups now: the newest is older than a question.
	List bool
	// Named are groups that somebody names and that are not known: they are read directly.
	Named []GroupName
	// Tags asks for the tags of all groups, or TagsOfInstances for those of groups of
	// instances.
	Tags, TagsOfInstances bool
	// TagsOf asks for those of some groups, by their IDs.
	TagsOf map[string]bool
	// Sweep asks for looking through groups for nodes, nil for not.
	Sweep *Sweep
}

// Sweep is what is looked for in the groups that may hold nodes.
type Sweep struct {
	// Since is since when each such group is to have been looked through, at once; zero
	// while nobody waits for that.
	Since  time.Time
	Tagged map[string]string
	// Instances are those of nodes, and lost ones whose zones are remembered.
	Instances map[string]bool
}
