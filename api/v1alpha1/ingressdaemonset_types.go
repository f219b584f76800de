package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`,description="How far the rollout is, or why it stands: the reason of the condition Progressing"
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.updateRevision`
// +kubebuilder:printcolumn:name="Images",type=string,priority=1,JSONPath=`.spec.template.spec.containers[*].image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].message`,description="What must change before the rollout can go on"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name must be at most 52 characters, because DaemonSets and pods are named after it"
type IngressDaemonSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec IngressDaemonSetSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
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
	// +kubebuilder:validation:Maximum=86400
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
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how long, in seconds, a node may take from the
	// update of its Deployment until it serves, before the condition Progressing
	// turns False. It is reported, and acted on where rollingUpdate.failurePolicy is
	// set. Defaults to 600.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
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
	// resources of each pod's container. Defaults to requests of 10m CPU and 32Mi memory,
	// without limits.
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
