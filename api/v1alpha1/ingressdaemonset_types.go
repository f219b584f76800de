package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// IngressDaemonSet runs the same number of pods of a proxy on each node it
// selects, and rolls out a change of them without losing a request: a node
// leaves the external load balancer before its pods are touched, and returns
// only when they serve.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=ingressdaemonsets,singular=ingressdaemonset,shortName=ids,categories=all
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredNodes`,description="Nodes that should run pods"
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.status.servingNodes`,description="Nodes with all pods ready, not detached"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedNodes`,description="Nodes whose Deployment has the update revision"
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.unavailableNodes`,description="Nodes that are out of the load balancer"
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.updateRevision`
// +kubebuilder:printcolumn:name="Images",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name must be at most 52 characters, because DaemonSets and pods are named after it"
type IngressDaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec IngressDaemonSetSpec `json:"spec"`
	// +optional
	Status IngressDaemonSetStatus `json:"status,omitempty"`
}

// IngressDaemonSetList is a list of IngressDaemonSets.
//
// +kubebuilder:object:root=true
type IngressDaemonSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngressDaemonSet `json:"items"`
}

// IngressDaemonSetSpec is the wanted state. Fields that have two names are
// defaulted in code, never by the API server.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podsPerNode) || !has(self.replicas) || self.podsPerNode == self.replicas",message="podsPerNode and replicas are two names of one field: set only one of them, or both to the same value"
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.annotateDeploymentToDetach) || (has(self.healthCheckNodePorts) && self.healthCheckNodePorts.size() > 0) || (has(self.serviceName) && self.serviceName.size() > 0)",message="annotateDeploymentToDetach makes health checks fail, so somebody must answer them: set healthCheckNodePorts, or serviceName"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceName) || self.serviceName.size() == 0 || self.?updateStrategy.rollingUpdate.failHealthChecks.orValue('First') == 'First'",message="failHealthChecks AfterDetachment is for healthCheckNodePorts: kube-proxy, which answers for serviceName, fails as soon as a node is marked"
// +kubebuilder:validation:XValidation:rule="!has(self.drainHook) || has(self.healthCheckNodePorts) && self.healthCheckNodePorts.size() > 0",message="drainHook asks the node's health checker, so there must be one: set healthCheckNodePorts"
type IngressDaemonSetSpec struct {
	// podsPerNode is the number of pods on each node. Defaults to 1. A change
	// is rolled out node by node, under the same budgets as a new template.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PodsPerNode *int32 `json:"podsPerNode,omitempty"`

	// replicas is another name for podsPerNode.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// selector tells the pods of this IngressDaemonSet from those of others.
	// Its matchLabels are added to the Deployments and their pods. Defaults to
	// the template's labels. The Deployments' own selectors do not contain
	// them, so they may change at any time.
	//
	// +optional
	Selector *Selector `json:"selector,omitempty"`

	// nodeSelector narrows the nodes further, beside the nodeSelector, the
	// required node affinity and the tolerations of the template.
	//
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// healthCheckNodePorts are ports of each node that answer the external load
	// balancer's HTTP health checks, on every path: 200 if and only if at least
	// podsPerNode pods of the node are ready and no update is scheduled for
	// them, 503 otherwise. A DaemonSet named <name>-<port> serves each.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Minimum=1024
	// +kubebuilder:validation:items:Maximum=65535
	HealthCheckNodePorts []int32 `json:"healthCheckNodePorts,omitempty"`

	// healthChecker configures the pods that answer on healthCheckNodePorts.
	//
	// +optional
	HealthChecker HealthChecker `json:"healthChecker,omitempty"`

	// serviceName names a Service of this namespace without a selector and with
	// externalTrafficPolicy Local. Its EndpointSlices are then written by the
	// controller: a node under update is published as terminating, so that
	// kube-proxy fails the Service's healthCheckNodePort while traffic still flows.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName,omitempty"`

	// drainHook holds pods that anybody deletes, such as kubectl drain, Karpenter or
	// the cluster autoscaler, until no traffic reaches them any more: a preStop hook
	// asks the node's health checker. It needs healthCheckNodePorts, and containers
	// without a preStop hook of their own.
	//
	// +optional
	DrainHook *DrainHook `json:"drainHook,omitempty"`

	// minReadySeconds is how long, in seconds, a new pod must be ready to count
	// as available. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// paused stops the rollout: nodes under way are finished and reattached, no
	// further node is touched. Nodes that join still get pods.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// revisionHistoryLimit is how many old revisions are kept. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how long, in seconds, a node may take from the
	// update of its Deployment until it serves, before the condition Progressing
	// turns False. It is reported, and acted on where rollingUpdate.failurePolicy is
	// set. Defaults to 600.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// podPlacement is how pods get to their node. NodeName (the default) sets
	// spec.nodeName and spares the scheduler; ports of host-network pods are then
	// not declared to the API server, so that they can be shared. Scheduler uses
	// node affinity.
	//
	// +optional
	PodPlacement PodPlacement `json:"podPlacement,omitempty"`

	// updateStrategy is how a change reaches the nodes.
	//
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`

	// template is the pod to run on each node.
	//
	// +required
	Template corev1.PodTemplateSpec `json:"template"`
}

// Selector selects by labels.
type Selector struct {
	// matchLabels are the labels and their values.
	//
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// HealthChecker configures the pods that answer on healthCheckNodePorts.
type HealthChecker struct {
	// image defaults to the controller's own, which contains the health checker.
	//
	// +optional
	Image string `json:"image,omitempty"`
	// imagePullPolicy of the pods.
	//
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// serviceAccountName is the account the pods run under. It is granted what
	// the health checker reads, in this namespace. Without it an account named
	// <name>-healthchecker is made.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// resources of each pod's container.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// tolerations default to the template's.
	//
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// DrainHook holds pods that are being deleted until no traffic reaches them.
type DrainHook struct {
	// lingerSeconds is how long, in seconds, connections that are still open have to
	// end, once no new one comes to the pod. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	LingerSeconds *int32 `json:"lingerSeconds,omitempty"`

	// stopSeconds is how much of the template's terminationGracePeriodSeconds is left,
	// in seconds, to the containers after the hook, which ends then whatever traffic
	// there is. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	StopSeconds *int32 `json:"stopSeconds,omitempty"`
}

// PodPlacement is how pods get to their node.
//
// +kubebuilder:validation:Enum=NodeName;Scheduler
type PodPlacement string

const (
	// PlaceByNodeName sets spec.nodeName.
	PlaceByNodeName PodPlacement = "NodeName"
	// PlaceByScheduler uses node affinity and the default scheduler.
	PlaceByScheduler PodPlacement = "Scheduler"
)

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

	// minServingNodes is the floor: no node is taken out where fewer nodes would
	// be left serving. Defaults to 1; 0 permits taking out the last one. Nodes
	// whose pods are replaced while they serve (degraded) are not taken out.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinServingNodes *int32 `json:"minServingNodes,omitempty"`

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
	AttachGracePeriodSeconds *int32 `json:"attachGracePeriodSeconds,omitempty"`

	// detachTimeoutSeconds is how long, in seconds, a node may take to be
	// detached. Defaults to 600.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
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
	// key of the annotation on the Node.
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
	// key of the annotation on the Node in which the detacher writes when the node was detached.
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
