package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// UpdateStrategy is how a change reaches the nodes.
type UpdateStrategy struct {
	// type is RollingUpdate. OnDelete is refused, because a ReplicaSet recreates
	// a deleted pod from the old template: use partition or paused.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == 'RollingUpdate'",message="only RollingUpdate is supported: instead of OnDelete, set rollingUpdate.partition to 100% and lower it step by step, or spec.paused to true"
	Type string `json:"type,omitempty"`
	// rollingUpdate sets the budgets and the handshake.
	//
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate sets the budgets and the handshake of a rollout. With
// maxUnavailableNodes at 1 or more a node is detached from the external load
// balancer before its pods are touched; otherwise its pods are replaced while it
// serves (degraded).
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailablePodsPerNode) || !has(self.maxUnavaiablePodsPerNode) || self.maxUnavailablePodsPerNode == self.maxUnavaiablePodsPerNode",message="maxUnavailablePodsPerNode and maxUnavaiablePodsPerNode are two names of one field: set only the first"
// +kubebuilder:validation:XValidation:rule="!(has(self.annotateDeploymentToDetach) || has(self.annotateNodeToDetach)) || !(self.?maxUnavailableNodes.orValue(0) in [dyn(0), dyn('0%')])",message="annotateDeploymentToDetach and annotateNodeToDetach detach nodes, which needs a budget: set maxUnavailableNodes to 1 or more, or to a percentage"
// +kubebuilder:validation:XValidation:rule="!(self.?maxUnavailableNodes.orValue(0) in [dyn(0), dyn('0%')] && self.?maxDegradedNodes.orValue(1) in [dyn(0), dyn('0%')])",message="maxUnavailableNodes and maxDegradedNodes are both 0, so no node could ever be updated: set one of them to 1 or more, or spec.paused to stop the rollout"
// +kubebuilder:validation:XValidation:rule="!(self.?maxUnavailableNodes.orValue(0) in [dyn(0), dyn('0%')] && self.?maxSurgedPodsPerNode.orValue(1) in [dyn(0), dyn('0%')] && self.?maxUnavailablePodsPerNode.orValue(self.?maxUnavaiablePodsPerNode.orValue(0)) in [dyn(0), dyn('0%')])",message="maxSurgedPodsPerNode and maxUnavailablePodsPerNode are both 0, so no pod of a serving node could ever be replaced: set one of them to 1 or more, or detach nodes with maxUnavailableNodes"
// +kubebuilder:validation:XValidation:rule="!has(self.waitForDetachmentByAnnotatedTimestamp) || has(self.annotateNodeToDetach)",message="waitForDetachmentByAnnotatedTimestamp waits for the answer to annotateNodeToDetach: set annotateNodeToDetach too"
// +kubebuilder:validation:XValidation:rule="!has(self.waitForDetachmentByAnnotatedTimestamp) || !has(self.annotateNodeToDetach) || self.waitForDetachmentByAnnotatedTimestamp.key != self.annotateNodeToDetach.key",message="annotateNodeToDetach.key and waitForDetachmentByAnnotatedTimestamp.key must differ: one asks, the other is the answer"
// +kubebuilder:validation:XValidation:rule="self.?failHealthChecks.orValue('First') == 'First' || has(self.waitForDetachmentByAnnotatedTimestamp)",message="failHealthChecks AfterDetachment waits for a detacher's answer: set annotateNodeToDetach and waitForDetachmentByAnnotatedTimestamp, or leave failHealthChecks out"
type RollingUpdate struct {
	// maxUnavailableNodes is how many nodes, or what percentage of them (rounded
	// up), may be out of the external load balancer at a time, for whatever
	// reason. At 1 or more nodes are detached before their pods are touched.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MaxUnavailableNodes *intstr.IntOrString `json:"maxUnavailableNodes,omitempty"`

	// maxDegradedNodes is how many nodes, or what percentage of them (rounded
	// up), may have pods replaced while they serve. Defaults to 1 where neither
	// it nor maxUnavailableNodes is set; not used when nodes are detached.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MaxDegradedNodes *intstr.IntOrString `json:"maxDegradedNodes,omitempty"`

	// maxUnavailablePodsPerNode is the maxUnavailable of the node's Deployment.
	// It is 100% where nodes are detached, and defaults to 0 otherwise.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MaxUnavailablePodsPerNode *intstr.IntOrString `json:"maxUnavailablePodsPerNode,omitempty"`

	// maxUnavaiablePodsPerNode is another spelling of maxUnavailablePodsPerNode.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MaxUnavaiablePodsPerNode *intstr.IntOrString `json:"maxUnavaiablePodsPerNode,omitempty"`

	// maxSurgedPodsPerNode is the maxSurge of the node's Deployment. Defaults to
	// 0 where nodes are detached, and to 1 otherwise.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MaxSurgedPodsPerNode *intstr.IntOrString `json:"maxSurgedPodsPerNode,omitempty"`

	// annotateDeploymentToDetach makes the node's health checks fail before any
	// of its pods is replaced. It is the default where nodes are detached, health
	// checks are answered and annotateNodeToDetach is not set.
	//
	// +optional
	AnnotateDeploymentToDetach *AnnotateDeploymentToDetach `json:"annotateDeploymentToDetach,omitempty"`

	// annotateNodeToDetach asks a detacher, such as node-detacher, to take the
	// node out of the external load balancer.
	//
	// +optional
	AnnotateNodeToDetach *AnnotateNodeToDetach `json:"annotateNodeToDetach,omitempty"`

	// waitForDetachmentByAnnotatedTimestamp waits until the detacher says that
	// the node is out. Needs annotateNodeToDetach.
	//
	// +optional
	WaitForDetachmentByAnnotatedTimestamp *WaitForDetachmentByAnnotatedTimestamp `json:"waitForDetachmentByAnnotatedTimestamp,omitempty"`

	// failHealthChecks is when the health checks of a node that is taken out begin to
	// fail: First, the default, before the detacher is asked; or AfterDetachment,
	// when it has answered, for load balancers that reset the connections of what
	// turns unhealthy, as network load balancers of AWS do unless told otherwise.
	// AfterDetachment needs waitForDetachmentByAnnotatedTimestamp.
	//
	// +optional
	FailHealthChecks FailHealthChecks `json:"failHealthChecks,omitempty"`

	// partition is how many nodes, or what percentage of them (rounded up), stay
	// at the revision they have. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// canaryNodeSelector selects by labels the nodes that are updated first, as
	// waves of their own.
	//
	// +optional
	CanaryNodeSelector map[string]string `json:"canaryNodeSelector,omitempty"`

	// order is the order in which nodes are updated.
	//
	// +optional
	Order Order `json:"order,omitempty"`

	// minServingNodes is how many nodes go on serving: none is taken out where fewer, or less
	// than this percentage of them (rounded up), would be left serving. Defaults to 1; 0 permits
	// taking out the last one. Nodes whose pods are replaced while they serve (degraded)
	// are not taken out.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be 0 or more, or a percentage from 0% to 100%"
	MinServingNodes *intstr.IntOrString `json:"minServingNodes,omitempty"`

	// ignoreNotReadyNodesAfterSeconds is after how long, in seconds, a node that is
	// NotReady uses up maxUnavailableNodes or maxDegradedNodes no more, so that a dead
	// machine does not stop a rollout. minServingNodes never counts it as serving.
	// Without it, the default, such nodes are counted for ever.
	//
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	IgnoreNotReadyNodesAfterSeconds *int32 `json:"ignoreNotReadyNodesAfterSeconds,omitempty"`

	// attachGracePeriodSeconds is how long, in seconds, a node that is attached
	// again must pass its health checks to count as serving. Defaults to
	// annotateDeploymentToDetach's grace period, or to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	AttachGracePeriodSeconds *int32 `json:"attachGracePeriodSeconds,omitempty"`

	// detachTimeoutSeconds is how long, in seconds, a node may take to be
	// detached. Defaults to 600.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DetachTimeoutSeconds *int32 `json:"detachTimeoutSeconds,omitempty"`

	// detachTimeoutPolicy is what follows a detachment that timed out. Abort (the
	// default) reattaches the node, reports, and halts the rollout until the spec
	// changes; Proceed updates the node all the same.
	//
	// +optional
	DetachTimeoutPolicy DetachTimeoutPolicy `json:"detachTimeoutPolicy,omitempty"`

	// analysis are checks of the nodes of a wave that must pass before the next
	// wave begins. With them the nodes of a wave begin together.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Analysis []AnalysisCheck `json:"analysis,omitempty"`

	// failurePolicy is what follows a failed analysis: Pause (the default) starts no
	// further node until the spec changes; Rollback takes all nodes back to
	// status.currentRevision, and leaves the spec alone: status.rejected says
	// so until the template changes. Where it is set, the same follows a node with
	// the present template that takes longer than progressDeadlineSeconds.
	//
	// +optional
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// Order is the order in which nodes are updated.
type Order struct {
	// topologyKey is a label of nodes. The nodes of one value are finished before
	// those of the next, in the order of the values; nodes without it come last.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key, such as topology.kubernetes.io/zone"
	TopologyKey string `json:"topologyKey,omitempty"`
}

// DetachTimeoutPolicy is what follows a detachment that timed out.
//
// +kubebuilder:validation:Enum=Abort;Proceed
type DetachTimeoutPolicy string

const (
	// AbortOnDetachTimeout reattaches the node and halts the rollout.
	AbortOnDetachTimeout DetachTimeoutPolicy = "Abort"
	// ProceedOnDetachTimeout updates the node all the same.
	ProceedOnDetachTimeout DetachTimeoutPolicy = "Proceed"
)

// AnnotateDeploymentToDetach makes the node's health checks fail.
type AnnotateDeploymentToDetach struct {
	// key of the annotation on the node's Deployment. Defaults to
	// ingressdaemonsets.mumoshu.github.com/to-be-updated.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be an annotation key: an optional DNS prefix and a slash, then at most 63 letters, digits, '-', '_' or '.'"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|[.])(ingressdaemonsets[.]mumoshu[.]github[.]io|kubernetes[.]io|k8s[.]io)/')",message="is reserved for Kubernetes or for this controller's own annotations: use a key of your own, or leave it out"
	Key string `json:"key,omitempty"`
	// gracePeriodSeconds is how long, in seconds, to wait after every health
	// check of the node fails. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
}

// AnnotateNodeToDetach asks a detacher to take the node out.
type AnnotateNodeToDetach struct {
	// key of the annotation on the Node: node-detacher.variant.run/detached, or that of another
	// detacher which the controller's --detach-annotations permits.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|[.])ingressdaemonsets[.]mumoshu[.]github[.]io/')",message="is reserved for this controller's own annotations: use the key that your detacher looks for"
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be an annotation key: an optional DNS prefix and a slash, then at most 63 letters, digits, '-', '_' or '.'"
	Key string `json:"key"`
	// value of the annotation. A value that is already there is kept.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
	// gracePeriodSeconds is how long, in seconds, to wait after the Node was
	// annotated. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
}

// FailHealthChecks is when the health checks of a node that is taken out begin to fail.
//
// +kubebuilder:validation:Enum=First;AfterDetachment
type FailHealthChecks string

const (
	// FailFirst fails them before the detacher is asked.
	FailFirst FailHealthChecks = "First"
	// FailAfterDetachment fails them when the detacher has answered.
	FailAfterDetachment FailHealthChecks = "AfterDetachment"
)

// WaitForDetachmentByAnnotatedTimestamp waits for the detacher's answer.
type WaitForDetachmentByAnnotatedTimestamp struct {
	// key of the annotation on the Node in which the detacher writes when the node was
	// detached: node-detacher.variant.run/detachment-timestamp, or the answer of another detacher
	// that the controller's --detach-annotations permits.
	//
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be an annotation key: an optional DNS prefix and a slash, then at most 63 letters, digits, '-', '_' or '.'"
	Key string `json:"key"`
	// format of the timestamp: RFC3339, the default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self == 'RFC3339'",message="only RFC3339 is supported, such as 2006-01-02T15:04:05Z"
	Format string `json:"format,omitempty"`
	// gracePeriodSeconds is how long, in seconds, to wait after the timestamp. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
}
