// Package rollout decides the next steps of one IngressDaemonSet's rollout. Plan turns
// a State, which is everything that was observed, into a Decision: steps in
// order, the status to write, and when to look again. Nothing here does I/O,
// reads a clock or remembers anything: what must survive a crash is in State,
// which comes from the objects in the API server and from the health checks.
//
// Its files, in the order in which to open them:
//
//   - state.go: everything that a decision is made from. step.go: everything that it can do.
//   - plan.go: Plan from top to bottom. pass.go: what there is to decide from. turn.go: the rules of a node's turn, in
//     the order in which they hold. verdict.go: what it comes to. answer.go: what a question comes to. decide.go: what
//     takes both into the decision.
//   - node.go, pods.go: what a node's pods and ports say. ports.go: which ports are Kubernetes's own. sights.go: since
//     when, by our own clock.
//   - handshake.go: the turn of a detached node; its invariant stands at the head. update.go: the step that replaces
//     pods. proportional.go: how the Deployment controller goes about that.
//   - wave.go: who begins; its invariant stands at the head of continueWave. budget.go: who counts as what. begin.go:
//     whether any may begin.
//   - order.go: partition, canaries, topology. analysis.go: the analysis of a wave. checkers.go: health checkers.
//     rejection.go, hold.go: rejected pods. removal.go: nodes that leave, and drains. deletion.go: the end of the
//     IngressDaemonSet. permitted.go: which detachers may be asked. status.go: counts and conditions.
//
// Nothing that answers a question acts. A method of pass reads, and gives an answer or a verdict: yes or no, until
// when, why not, whether the API server is to be asked first; a node's state and reason, its steps, when to look
// again, what blocks it. settle and take alone bring that into the Decision, which only planner has. A node for which
// this decision holds a step is left alone until the step is seen.
package rollout

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// State is everything a decision is made from.
type State struct {
	Now time.Time
	// Began is when this controller began to look, Looked when it last did so lookAgain ago
	// or earlier and was not frozen since, AnalysisSeen when it first saw the present phase of the
	// analysis; all, and what is Seen of nodes, by its own clock.
	Began, Looked, AnalysisSeen time.Time
	Generation                  int64
	Spec                        v1alpha1.IngressDaemonSetSpec
	// Status is the status as it was last written.
	Status   v1alpha1.IngressDaemonSetStatus
	Deletion Deletion
	// Revision is the hash of the present template, Revisions are those whose
	// template is on record.
	Revision  string
	Revisions map[string]bool
	// BroughtBack says whether another was recorded after the present one, or as late.
	BroughtBack bool
	// DryRun is what the API server said of a Deployment with the present template.
	DryRun DryRun
	// Faults are what else was found to stand in the way, such as a Service of
	// the wrong form; each becomes the condition Blocked.
	Faults []Fault
	// Warnings are what was found to lose requests and stands in the way of nothing;
	// they become the condition Warning.
	Warnings []Fault
	// Nodes are those in the node set and those with a Deployment or a mark of ours, by name.
	Nodes    []Node
	Checkers []Checker
	// Measurements are the last of each check, Promoted is the beginning of an
	// analysis that somebody does not want to wait for.
	Measurements []Measurement
	Promoted     string
	// Detachers are those that may be asked, beside node-detacher.
	Detachers []Detacher
	// ReleasedPorts are health-check ports that may be closed although somebody may ask
	// them.
	ReleasedPorts map[int32]bool
}

// Measurement is one of a check of the analysis.
type Measurement struct {
	Check string
	// Analysis is the AnalysisID of what it was made for.
	Analysis string
	At       time.Time
	// Counted says whether it was in a status that was stored. Another controller, whose own came
	// after it, may have written over when the last was.
	Counted bool
	// Failure is empty where it passed. FailedOn are the nodes that it failed on, where
	// nodes are what was measured.
	Failure  string
	FailedOn []string
}

// Deletion reports whether and how the IngressDaemonSet is being deleted.
type Deletion string

const (
	// NotDeleted is a living object.
	NotDeleted Deletion = ""
	// DeleteInWaves detaches the nodes before their Deployments are deleted.
	DeleteInWaves Deletion = "InWaves"
	// DeleteAtOnce only releases the Nodes, because the garbage collector or the
	// namespace controller deletes the rest without waiting.
	DeleteAtOnce Deletion = "AtOnce"
	// DeleteOrphaning keeps the Deployments and removes every mark.
	DeleteOrphaning Deletion = "Orphaning"
)

// DryRun is what the API server said of a Deployment with the present template.
type DryRun struct {
	Done bool
	// Refusal is the server's message, empty where it accepted.
	Refusal string
}

// Fault is something that must change before the rollout can go on.
type Fault struct{ Reason, Message string }

// Node is one node and what stands on it.
type Node struct {
	Name string
	// Seen is when this controller first saw what stands here; nil where all clocks
	// are one, as in a forecast.
	Seen *Seen
	// Exists says whether the Node object is there, Wanted whether it is in the node set.
	Exists, Wanted bool
	// Ready says whether the Node is, ReadyAt when that last changed, by the clock of whoever
	// said so.
	Ready   bool
	ReadyAt time.Time
	// Leaving says whether the node is cordoned or about to be removed, Evicting
	// whether somebody has evicted pods of ours from it.
	Leaving, Evicting bool
	// Tainted says whether the node has a taint NoExecute that pods do not tolerate for good.
	Tainted bool
	// EvictedSince is when a taint that is still there was first seen to take a pod of each
	// ReplicaSet, by its hash.
	EvictedSince map[string]time.Time
	Labels       map[string]string
	Detachment   Detachment
	Deployment   *Deployment
	// Pods are those of the Deployment, terminating and failed ones included.
	Pods []Pod
	// Checks are the answers of the node's health-check ports.
	Checks []Check
	// CheckersSettled says whether each health checker of the node runs and none
	// is about to be replaced.
	CheckersSettled bool
}

// Deployment is a node's Deployment.
type Deployment struct {
	Name     string
	Deleting bool
	Revision string
	// PodsPerNode is how many pods make the node serve; Replicas is how many are
	// asked for at the moment.
	PodsPerNode, Replicas int32
	// Surge is how many pods more the Deployment may have at the moment.
	Surge int32
	// Settled says whether the Deployment controller has seen the present spec;
	// UpdatedReplicas is how many pods it then counted of the present template,
	// OlderReplicas of others, and ReadyReplicas how many of all were ready.
	Settled                                       bool
	UpdatedReplicas, OlderReplicas, ReadyReplicas int32
	// Drifted says whether somebody else changed the spec, Outmoded whether fields
	// that restart no pod, or its labels, differ from what is wanted.
	Drifted, Outmoded bool
	// Detached says whether somebody wants the node out of the load balancer.
	Detached bool
	// Mark is the value of the health-check mark, empty where there is none; EmptyMark
	// says whether one is there that somebody left without a value.
	Mark                             v1alpha1.Mark
	EmptyMark                        bool
	UpdatedAt, AttachedAt, DrainedAt time.Time
	// Drained says whether somebody was seen to drain the node, also where it is not known when.
	Drained bool
	Hold    *v1alpha1.Hold
}

// Pod is a pod of a node's Deployment.
type Pod struct {
	Name, Revision string
	// ReplicaSet is the hash by which the Deployment controller tells the pods of one
	// template from those of another, also where their revision is the same.
	ReplicaSet string
	// Older says whether its template is known to be another than the Deployment's present
	// one, also where the revision is the same (see InDoubt).
	Older bool
	// Created is when it was made, Deleted when somebody asked for its end, Evicted
	// whether a taint of its node is why.
	Created, Deleted time.Time
	Evicted          bool
	// Ready says whether its containers are ready and no readiness gate fails.
	Ready      bool
	ReadySince time.Time
	// SeenReady is when this controller first saw it ready, zero where it was so before.
	SeenReady   time.Time
	Running     bool
	Terminating bool
	// Failed is the reason of a pod that ended, such as one that the kubelet rejected.
	Failed string
	// Unready says in a sentence why it is not ready, empty where it is or where nothing tells.
	Unready string
}

// Check is what a health-check port of a node answers.
type Check struct {
	Port int32
	// Retiring says whether the port is not in the spec any more.
	Retiring bool
	// Answered says whether the port answered, Gone whether no health checker is there to.
	Answered, Gone bool
	// Accepted says whether a port that did not answer was listened to all the same: a process
	// that outlives its pod may answer others who wait for longer.
	Accepted bool
	Serving  bool
	// Mark is the mark that the answer repeats. Unmarked ports, such as
	// kube-proxy's, repeat none.
	Mark     v1alpha1.Mark
	Unmarked bool
	// Since is when the port began to pass or, whatever marks came meanwhile, to fail.
	// Where the health checker does not tell, it is when its answer last changed, or when
	// it fell silent; zero for one that never answered.
	Since time.Time
	// SeenSilenced is when this controller first saw that nobody answers because nobody is
	// there, zero where it was so before.
	SeenSilenced time.Time
	// Quiet says whether nobody but this project's programs asks the port any more, AskedBy
	// who did last.
	Quiet   bool
	AskedBy string
	// Blind is why its health checker cannot read the API server, empty where it can.
	Blind string
}

// Detachment is what stands on the Node about its detachment.
type Detachment struct {
	// Requested says whether we asked, and since when.
	Requested   bool
	RequestedAt time.Time
	// StaleTimestamp is the detacher's timestamp that was there before we asked
	// and belonged to a detachment that had ended.
	StaleTimestamp string
	// Held says whether the annotation that asks is on the Node, by us or by others.
	Held bool
	// Timestamp is the detacher's answer as it stands.
	Timestamp string
	// Moving says whether a detacher has begun to take the node out of its load
	// balancers, for whatever reason, and not yet put it back into all of them.
	Moving bool
}

// Checker is a DaemonSet of health checkers.
type Checker struct {
	Port int32
	// Wanted says whether the port is in the spec.
	Wanted, Exists bool
	// Outdated says whether its pods would be replaced by what is wanted now.
	Outdated bool
	// Taken says whether an older IngressDaemonSet answers on the port, on a node of both.
	Taken bool
}

// Seen is when this controller first saw what stands on a node now; zero for what was
// there when it began to look.
type Seen struct {
	// Claim is of the name in status.wave, Ready of the Node's readiness.
	Claim, Ready time.Time
	// Mark, Updated, Attached and Hold are of the Deployment's annotations, Requested and
	// Timestamp of the Node's.
	Mark, Updated, Attached, Hold, Requested, Timestamp time.Time
	// Ending is of the end of pods, by name, on a node that is leaving; zero where they ended before.
	Ending map[string]time.Time
}

// Detacher is who takes nodes out of load balancers when an annotation on the Node asks for it.
// Ask is the key of that annotation, Answer that of the timestamp that says when the node was out;
// empty where nothing answers. An answer counts only to the question that it belongs to: whoever
// may ask could otherwise write an answer to somebody else's.
type Detacher struct{ Ask, Answer string }
