package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IngressDaemonSetStatus is the observed state.
type IngressDaemonSetStatus struct {
	// observedGeneration is the generation of the spec that this status describes, -1 before any.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// desiredNodes is the number of nodes in the node set.
	//
	// +optional
	DesiredNodes int32 `json:"desiredNodes"`
	// servingNodes is the number of nodes with all pods ready and not detached.
	//
	// +optional
	ServingNodes int32 `json:"servingNodes"`
	// degradedNodes is the number of attached nodes of which some pods are not ready or being replaced.
	//
	// +optional
	DegradedNodes int32 `json:"degradedNodes"`
	// unavailableNodes is the number of nodes out of the load balancer, by the
	// controller, by somebody else or by failure.
	//
	// +optional
	UnavailableNodes int32 `json:"unavailableNodes"`
	// updatedNodes is the number of nodes whose Deployment has the update revision.
	//
	// +optional
	UpdatedNodes int32 `json:"updatedNodes"`

	// currentRevision is the last revision that every Ready node ran and served with, and
	// whose analysis passed; empty before the first. A rollback goes back to it.
	//
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// updateRevision is the revision of the present template.
	//
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// wave is the nodes whose update is under way together. A node is named here
	// before it is touched, and until it serves again. At most 1000 begin together; nodes
	// that somebody else drains or takes out may be more.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20000
	Wave []string `json:"wave,omitempty"`

	// nodes are the first 50 nodes that do not serve, those of the wave first.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Nodes []NodeStatus `json:"nodes,omitempty"`

	// analysis is that of the last wave, where rollingUpdate.analysis is set.
	//
	// +optional
	Analysis *AnalysisStatus `json:"analysis,omitempty"`

	// rejected is the template's revision where it failed: nodes are taken back to
	// currentRevision until the template changes.
	//
	// +optional
	Rejected *RejectedRevision `json:"rejected,omitempty"`

	// detachTimedOut are nodes that were not detached in time.
	//
	// +optional
	DetachTimedOut *NodesTimedOut `json:"detachTimedOut,omitempty"`

	// conditions are Available, Progressing, Degraded, Blocked and Warning, and for tools that know
	// no other Ready, Reconciling and Stalled.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodesTimedOut are nodes that are not tried again until the spec changes.
type NodesTimedOut struct {
	// generation is that of the spec with which they were tried.
	Generation int64 `json:"generation"`
	// nodes by name.
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=20000
	Nodes []string `json:"nodes"`
}

// NodeStatus is where a node that does not serve stands.
type NodeStatus struct {
	// name of the node.
	Name string `json:"name"`
	// state is how far the node is in an update.
	State NodeState `json:"state"`
	// reason says in a sentence what the node waits for.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// since is when the node came into this state.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// NodeState is how far a node is in an update.
type NodeState string

const (
	// NodeDetaching is marked and leaves the load balancer; its pods are untouched.
	NodeDetaching NodeState = "Detaching"
	// NodeUpdating has its pods replaced.
	NodeUpdating NodeState = "Updating"
	// NodeAttaching has new pods and returns to the load balancer.
	NodeAttaching NodeState = "Attaching"
	// NodeServing is attached with all pods ready.
	NodeServing NodeState = "Serving"
	// NodeDegraded is attached with some pods not ready or being replaced.
	NodeDegraded NodeState = "Degraded"
	// NodeUnavailable does not serve, for a reason that is not an update.
	NodeUnavailable NodeState = "Unavailable"
	// NodeRemoving leaves the load balancer for good; its Deployment is deleted then.
	NodeRemoving NodeState = "Removing"
	// NodeDetached is out of the load balancer for as long as somebody wants it; its pods are left alone.
	NodeDetached NodeState = "Detached"
	// NodeDrained was drained by somebody else; its Deployment is scaled to 0.
	NodeDrained NodeState = "Drained"
)

// Condition types of an IngressDaemonSet.
const (
	// ConditionAvailable is True while at least minServingNodes nodes serve.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while a rollout goes on or is complete, False
	// when it halted or overran its deadline.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a node that should serve does not.
	ConditionDegraded = "Degraded"
	// ConditionBlocked is True while something must change before the rollout can go on.
	ConditionBlocked = "Blocked"
	// ConditionWarning is True while nothing stands in the way and yet something loses
	// requests, or does not do what it was written for. It is absent until it is first True.
	ConditionWarning = "Warning"
)

// Condition types of all kinds, by the rules of kstatus (docs/adr/0028). Exactly one of them is True.
const (
	// ConditionReady is True while the object is as its present spec says, and nothing is left to do:
	// of an IngressDaemonSet that the rollout is complete, of a TargetGroupAttachment that every target
	// that should be registered is healthy, of an Attachment that its node is where it is wanted.
	ConditionReady = "Ready"
	// ConditionReconciling is True while something is left to do that may come about by itself.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the present spec is not carried out, and will not be before
	// somebody changes something.
	ConditionStalled = "Stalled"
)

// Reasons of conditions.
const (
	// ReasonAsExpected: nothing to say.
	ReasonAsExpected = "AsExpected"
	// ReasonComplete: every node that should have it has the update revision and serves.
	ReasonComplete = "Complete"
	// ReasonRollingOut: nodes are being updated.
	ReasonRollingOut = "RollingOut"
	// ReasonPaused: spec.paused is set.
	ReasonPaused = "Paused"
	// ReasonDetachTimedOut: a detachment took longer than detachTimeoutSeconds; halted until the spec changes.
	ReasonDetachTimedOut = "DetachTimedOut"
	// ReasonProgressDeadlineExceeded: a node takes longer than progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonAnalyzing: the last wave is measured before the next begins.
	ReasonAnalyzing = "Analyzing"
	// ReasonAnalysisFailed: a check of rollingUpdate.analysis failed; halted until the spec changes.
	ReasonAnalysisFailed = "AnalysisFailed"
	// ReasonRollingBack: the present template was rejected, and nodes are taken back to currentRevision.
	ReasonRollingBack = "RollingBack"
	// ReasonRolledBack: the present template was rejected, and no node has it any more.
	ReasonRolledBack = "RolledBack"
	// ReasonNodesServing: at least minServingNodes nodes serve.
	ReasonNodesServing = "NodesServing"
	// ReasonTooFewNodesServing: fewer than minServingNodes nodes serve.
	ReasonTooFewNodesServing = "TooFewNodesServing"
	// ReasonNoNodes: no node is selected.
	ReasonNoNodes = "NoNodes"
	// ReasonBeingDeleted: nodes are released, since the object is being deleted.
	ReasonBeingDeleted = "BeingDeleted"
	// ReasonNodesNotServing: some nodes do not serve and are not under way. Blocked: the last wave
	// cannot be measured for it.
	ReasonNodesNotServing = "NodesNotServing"
	// ReasonPodsRejected: a kubelet rejects pods, such as for want of CPU, or a taint evicts them.
	ReasonPodsRejected = "PodsRejected"
	// ReasonFloorReached: another node taken out would leave fewer than minServingNodes.
	ReasonFloorReached = "FloorReached"
	// ReasonNodeNotReady: a Node that waits for its update is NotReady.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonBudgetExhausted: nodes that do not serve use up the budget.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonDeploymentRefused: the API server refuses the new Deployment in a dry run.
	ReasonDeploymentRefused = "DeploymentRefused"
	// ReasonHealthCheckerNotReady: a health checker is missing, being replaced, or does not answer.
	ReasonHealthCheckerNotReady = "HealthCheckerNotReady"
	// ReasonServiceUnusable: the Service in spec.serviceName is missing, not of the needed
	// form, or names a target port that a template does not declare.
	ReasonServiceUnusable = "ServiceUnusable"
	// ReasonInvalidSpec: the spec cannot be carried out; admission would have refused it.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonAnalysisInvalid: a check of the analysis has a condition that cannot be read, or a
	// query that is too long with the names of the nodes that are measured.
	ReasonAnalysisInvalid = "AnalysisInvalid"
	// ReasonAnnotationNotPermitted: the operator does not permit an annotation of Nodes that
	// the spec asks for detachment with, or waits for.
	ReasonAnnotationNotPermitted = "AnnotationNotPermitted"
	// ReasonAttachTimedOut: a detacher did not put a node back within detachTimeoutSeconds.
	ReasonAttachTimedOut = "AttachTimedOut"
	// ReasonHealthCheckPortAsked: a health-check port that was removed from the spec is still asked.
	ReasonHealthCheckPortAsked = "HealthCheckPortAsked"
	// ReasonHealthCheckPortSilent: a health-check port that was removed from the spec does not
	// answer, so that nobody knows whether it is still asked.
	ReasonHealthCheckPortSilent = "HealthCheckPortSilent"
	// ReasonHealthCheckerBlind: a health checker cannot read the API server, and sees no mark.
	ReasonHealthCheckerBlind = "HealthCheckerBlind"
	// ReasonPortConflict: another IngressDaemonSet answers on the same health-check port of a node.
	ReasonPortConflict = "PortConflict"
	// ReasonHostPortShared: an older IngressDaemonSet declares the same port of a node of both.
	ReasonHostPortShared = "HostPortShared"
	// ReasonForeignObject: an object that the controller must write belongs to somebody else.
	ReasonForeignObject = "ForeignObject"
	// ReasonPodsLeft: pods run on a node that is to go, and their Deployment is not found.
	ReasonPodsLeft = "PodsLeft"
	// ReasonTargetsHealthy: every target that should be registered is healthy.
	ReasonTargetsHealthy = "TargetsHealthy"
	// ReasonNoTargets: it selects nothing that should be registered, so that no target is unhealthy.
	ReasonNoTargets = "NoTargets"
	// ReasonTargetsNotHealthy: some targets are not registered or not healthy yet.
	ReasonTargetsNotHealthy = "TargetsNotHealthy"
	// ReasonTargetsLeaving: the object is deleted, and its targets are taken out.
	ReasonTargetsLeaving = "TargetsLeaving"
	// ReasonNoGroup: no target group matches.
	ReasonNoGroup = "NoGroup"
	// ReasonGroupsUnknown: the target groups could not be read yet.
	ReasonGroupsUnknown = "GroupsUnknown"
	// ReasonTargetsRefused: some targets cannot be registered as asked for.
	ReasonTargetsRefused = "TargetsRefused"
	// ReasonGroupBound: a TargetGroupBinding has a target group to itself, and nothing is done there.
	ReasonGroupBound = "GroupBound"
	// ReasonNoCloud: the controller runs without --cloud, and nobody keeps the targets.
	ReasonNoCloud = "NoCloud"
	// ReasonDetached: no traffic reaches the node any more.
	ReasonDetached = "Detached"
	// ReasonDetaching: the node is being taken out of its load balancers.
	ReasonDetaching = "Detaching"
	// ReasonAttached: all that the node was taken out of has it again.
	ReasonAttached = "Attached"
	// ReasonAttaching: the node is being put back.
	ReasonAttaching = "Attaching"
	// ReasonConnectionsReset: the load balancer ends the connections of nodes whose health checks a rollout fails.
	ReasonConnectionsReset = "ConnectionsReset"
	// ReasonGraceTooShort: pods end before the load balancer stops sending to them.
	ReasonGraceTooShort = "GraceTooShort"
	// ReasonGateNotChecked: pods have a readiness gate of which no target group can tell anything.
	ReasonGateNotChecked = "GateNotChecked"
)
