package rollout

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Decision is what to do now. Steps are carried out in order; a step that
// fails does not hinder those of other nodes, because each says all it needs and
// is guarded by what was observed.
type Decision struct {
	Steps  []Step
	Status v1alpha1.IngressDaemonSetStatus
	// WakeAt is when to look again if nothing happens before; zero for never.
	WakeAt time.Time
}

// Step is one write.
type Step struct {
	Action Action
	// Node is empty in steps that concern no single node.
	Node string
	// Reason is a clause that says why.
	Reason string

	// Revision and Replicas are those of Create, Update and HoldBack.
	Revision string
	Replicas int32
	// At is the time to write into the objects of the node.
	At time.Time
	// Mark is the mark's value in Mark; Drained marks the node as drained too.
	Mark    v1alpha1.Mark
	Drained bool
	// Hold is what to remember in HoldBack, Update and SetFields, nil to forget.
	Hold *v1alpha1.Hold
	// PodsPerNode is how many pods make the node serve, which SetFields puts back; nil to leave it.
	PodsPerNode *int32
	// Paused says whether HoldBack pauses the Deployment, so that the Deployment
	// controller neither starts nor stops pods of a rolling update.
	Paused bool
	// Rolling is how Create, Update and HoldBack have the Deployment controller replace
	// pods, until the next Update or SetFields.
	Rolling Rolling
	// Keep leaves the pod template in Update and HoldBack as it is, ReplicaSet has
	// HoldBack go back to the template of the ReplicaSet with this hash, and Create begin
	// with it and its pods where its Deployment was deleted without it. Otherwise the
	// template is made anew, which may differ in more than the revision.
	Keep       bool
	ReplicaSet string
	// Pods are the names in DeletePods.
	Pods []string
	Port int32
	// StaleTimestamp is remembered in RequestDetachment.
	StaleTimestamp string
	// Check is the name of the check in Measure, Analysis the AnalysisID.
	Check, Analysis string
}

// Rolling bounds a rolling update, in pods; zero is what the spec says.
type Rolling struct{ Surge, Unavailable int32 }

// Action is the kind of a write.
type Action string

const (
	// DryRunDeployment asks the API server whether it would accept the new Deployment.
	DryRunDeployment Action = "DryRunDeployment"
	// RecordRevision records the present template.
	RecordRevision Action = "RecordRevision"
	// ApplyChecker creates or updates the DaemonSet of a health-check port.
	ApplyChecker Action = "ApplyChecker"
	// DeleteChecker deletes it.
	DeleteChecker Action = "DeleteChecker"
	// Create creates the Deployment of a node.
	Create Action = "Create"
	// Mark makes the health checks of a node fail.
	Mark Action = "Mark"
	// RequestDetachment annotates the Node.
	RequestDetachment Action = "RequestDetachment"
	// Update gives the Deployment a revision and a number of pods.
	Update Action = "Update"
	// Unmark lets the health checks of a node pass again, and forgets a drain.
	Unmark Action = "Unmark"
	// ReleaseDetachment removes our annotations from the Node.
	ReleaseDetachment Action = "ReleaseDetachment"
	// SetFields sets fields of the Deployment that restart no pod, and the Hold.
	SetFields Action = "SetFields"
	// HoldBack asks for no more pods than run. How many pods make the node serve
	// does not change.
	HoldBack Action = "HoldBack"
	// ScaleToZero stops the pods of a node that somebody else drains.
	ScaleToZero Action = "ScaleToZero"
	// DeletePods deletes failed pods.
	DeletePods Action = "DeletePods"
	// Delete deletes the Deployment of a node.
	Delete Action = "Delete"
	// Stamp changes nothing but the Deployment's version, so that writes that were decided
	// upon before are refused.
	Stamp Action = "Stamp"
	// Measure makes a measurement of a check of the analysis; it writes nothing.
	Measure Action = "Measure"
	// RemoveFinalizer lets the IngressDaemonSet go.
	RemoveFinalizer Action = "RemoveFinalizer"
)

// String is the step as a line of a story.
func (s Step) String() string {
	line := string(s.Action)
	if s.Node != "" {
		line += " " + s.Node
	}
	switch s.Action {
	case Create, Update, HoldBack:
		line += fmt.Sprintf(" to %s x%d", s.Revision, s.Replicas)
	case ApplyChecker, DeleteChecker:
		line += fmt.Sprintf(" %d", s.Port)
	case Measure:
		line += " " + s.Check
	}
	if s.Reason != "" {
		line += ": " + s.Reason
	}
	return line
}
