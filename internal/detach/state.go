// Package detach decides which nodes to detach from all their load balancers, and why; when they
// are detached, and when they are attached again. It keeps node-detacher's contract
// (github.com/mumoshu/node-detacher), so that a rollout can be used with either. Plan turns a State
// into a Decision. Nothing here does I/O, reads a clock or remembers anything: what must survive a
// crash stands on the Node and in its Attachment.
//
// Read state.go, reason.go, plan.go, node.go, minimum.go, marks.go, pods.go, status.go.
package detach

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// State is everything a decision is made from.
type State struct {
	Now time.Time
	// Reasons are those for which nodes are detached.
	Reasons []Reason
	// MinAttached is how many nodes, or what percentage of those outside the control plane
	// (rounded up), are left attached whatever reasons hold.
	MinAttached intstr.IntOrString
	// Nodes are all Nodes, and those that are gone of which an Attachment is left.
	Nodes []Node
	// Answers says whether nobody moves targets, since there is no cloud, so that the statuses of
	// Attachments are decided here.
	Answers bool
}

// Node is a node, what stands on it, and where its targets stand.
type Node struct {
	Name string
	// Exists says whether the Node object is there.
	Exists bool
	// GoneSince is when this process first saw that it is not.
	GoneSince time.Time
	// GoneBefore is for how long it had been gone by then, as others saw it by their own clocks.
	GoneBefore time.Duration
	// GoneRecorded is for how long it has been gone by what is on record.
	GoneRecorded time.Duration
	// Instance is the id of its machine, empty where its provider is not the cloud's.
	// Unnamed says whether it does not say yet which machine it is.
	Instance string
	Unnamed  bool
	Ready    bool
	Cordoned bool
	Taints   []corev1.Taint
	// Labels and Annotations are the Node's.
	Labels, Annotations map[string]string
	// Detaching says whether the condition NodeBeingDetached is True.
	Detaching  bool
	Attachment *Attachment
	// Webhooks are the other load balancers.
	Webhooks []Webhook
	// Pods are those with a deletion priority.
	Pods []Pod
}

// Attachment is the node's object of that kind. Whoever registers targets reads in
// it where the node's targets are to be, remembers there what it takes out, and
// answers how far they are.
type Attachment struct {
	// Instance is the machine that was detached.
	Instance string
	// Detach says whether the node is to be out, and otherwise attached.
	Detach bool
	// Remembered says whether all that is to be taken out stands in it.
	Remembered bool
	// Done says whether all its targets are where they are to be, Evidence how it is
	// known that traffic has stopped, Waits what is waited for.
	Done            bool
	Evidence, Waits string
	// Object is what the answer is written to where State.Answers says so; nil otherwise.
	Object *v1alpha1.Attachment
}

// Webhook is another load balancer and its last answer about the node.
type Webhook struct {
	Name string
	// Detached and Attached say whether it answered so, for the present Attachment.
	Detached, Attached bool
	// Undone says whether it answered otherwise.
	Undone  bool
	Waits   string
	RetryAt time.Time
}

// Pod is a pod that is to be stopped in its turn.
type Pod struct {
	Namespace, Name, UID string
	Priority             int
	Terminating, Ended   bool
	// Daemon says whether a DaemonSet made it, and Tolerates whether it tolerates the
	// taint of a node that is being detached, and would come back.
	Daemon, Tolerates bool
	// Delete says whether it is deleted without regard to disruption budgets.
	Delete bool
	// RetryAt is when an eviction that a budget refused is tried again.
	RetryAt time.Time
}
