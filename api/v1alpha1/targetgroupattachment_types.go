package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TargetGroupAttachment keeps pods or nodes registered with target groups of a
// cloud's load balancer: each from the moment it has an address until it is about
// to go, and out of them before that where it takes part in a rollout or has a
// drain hook.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=targetgroupattachments,singular=targetgroupattachment,shortName=tga
// +kubebuilder:printcolumn:name="Groups",type=integer,JSONPath=`.status.groupCount`,description="Target groups that match"
// +kubebuilder:printcolumn:name="Targets",type=integer,JSONPath=`.status.targets`,description="Targets that should be registered, over all groups"
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthy`,description="Those that are healthy"
// +kubebuilder:printcolumn:name="Leaving",type=integer,JSONPath=`.status.leaving`,description="Targets whose traffic has not stopped yet"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Warning",type=string,JSONPath=`.status.conditions[?(@.type=="Warning")].status`
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.status.access.note`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].message`,description="What must change before all targets can be where they should be"
type TargetGroupAttachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec TargetGroupAttachmentSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status TargetGroupAttachmentStatus `json:"status,omitempty"`
}

// TargetGroupAttachmentList is a list of TargetGroupAttachments.
//
// +kubebuilder:object:root=true
type TargetGroupAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TargetGroupAttachment `json:"items"`
}

// TargetGroupAttachmentSpec is which targets belong into which groups.
//
// +kubebuilder:validation:XValidation:rule="[has(self.ingressDaemonSet), has(self.podSelector), has(self.nodeSelector)].filter(x, x).size() == 1",message="say where the targets come from: set exactly one of ingressDaemonSet, podSelector and nodeSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector) || self.targetType == 'instance'",message="nodeSelector selects nodes, whose instances are targets: set targetType to instance, or select pods with podSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeSelector) || type(self.port) == int",message="with nodeSelector no pod says what the name of a port means: set port to a number"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || self.targetType == 'instance' && !has(self.nodeSelector)",message="service is how nodes with pods take the traffic: it needs targetType instance, and pods selected by ingressDaemonSet or podSelector"
// +kubebuilder:validation:XValidation:rule="!has(self.availabilityZone) || self.targetType == 'ip'",message="availabilityZone is of addresses outside the group's network: it needs targetType ip"
type TargetGroupAttachmentSpec struct {
	// targetGroup says which groups.
	//
	// +required
	TargetGroup TargetGroupSelector `json:"targetGroup"`

	// targetType is that of the groups: ip registers the addresses of pods, instance the nodes.
	//
	// +required
	// +kubebuilder:validation:Enum=instance;ip
	TargetType string `json:"targetType"`

	// ingressDaemonSet of this namespace, whose pods (ip) or node set (instance)
	// are the targets.
	//
	// +optional
	IngressDaemonSet *LocalReference `json:"ingressDaemonSet,omitempty"`
	// podSelector selects pods of this namespace, by whose addresses (ip) or nodes
	// (instance) they are reached.
	//
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// nodeSelector selects nodes.
	//
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// port is where the targets take the traffic: a number, or the name of a
	// container's port. For instance targets it is the port of the node: that of
	// pods on the host network, a hostPort, or the nodePort of a Service whose
	// externalTrafficPolicy is Local.
	//
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$')",message="must be a number from 1 to 65535, or the name of a port"
	Port intstr.IntOrString `json:"port"`

	// service of this namespace, of type NodePort or LoadBalancer with
	// externalTrafficPolicy Local, through which instance targets take the traffic. port
	// is then one of its ports, and the targets' port is the nodePort.
	//
	// +optional
	Service *LocalReference `json:"service,omitempty"`

	// ownership is what is deregistered: Registered (the default) only what this
	// object registered, by its record in status; Group whatever is in the group and
	// should not be, so that nobody else may register with it.
	//
	// +optional
	// +kubebuilder:validation:Enum=Registered;Group
	Ownership TargetOwnership `json:"ownership,omitempty"`

	// availabilityZone is given with addresses outside the network of the groups: a
	// zone, or all. Leave it out for addresses inside.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AvailabilityZone string `json:"availabilityZone,omitempty"`

	// detachFloorSeconds is the settle time: how long, in seconds, the load balancer may send
	// new connections after a target was deregistered. Defaults to 300 with a network load
	// balancer, and 30 with another. Of those that select a target the longest counts.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DetachFloorSeconds *int32 `json:"detachFloorSeconds,omitempty"`

	// assumeRole is the role to act as, such as that of another account: one of those in the
	// file that the controller's --assume-roles-file names.
	//
	// +optional
	AssumeRole *AssumeRole `json:"assumeRole,omitempty"`
}

// LocalReference names an object of the same namespace.
type LocalReference struct {
	// name of the object.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// TargetGroupSelector says which target groups.
//
// +kubebuilder:validation:XValidation:rule="[has(self.arn), has(self.name), has(self.tags)].filter(x, x).size() == 1",message="set exactly one of arn, name and tags"
type TargetGroupSelector struct {
	// arn of one group.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[^:]+:elasticloadbalancing:[^:]+:[0-9]{12}:targetgroup/[^/]+/[^/]+$')",message="must be the ARN of a target group, such as arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/73e2d6bc24d8a067"
	ARN string `json:"arn,omitempty"`
	// name of one group.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9]{0,30}[A-Za-z0-9])?$')",message="must be the name of a target group: at most 32 letters, digits and hyphens"
	Name string `json:"name,omitempty"`
	// tags that every group has, also one that is made or tagged later.
	//
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=50
	Tags map[string]string `json:"tags,omitempty"`
}

// TargetOwnership is what is deregistered.
type TargetOwnership string

const (
	// OwnRegistered leaves alone what others registered.
	OwnRegistered TargetOwnership = "Registered"
	// OwnGroup deregisters whatever should not be in the group.
	OwnGroup TargetOwnership = "Group"
)

// AssumeRole is a role to act as.
type AssumeRole struct {
	// arn of the role: after its account a path, of printable characters without blanks, and a
	// name, of letters, digits and +=,.@_- (IAM and AWS STS quotas, name requirements).
	//
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^arn:[a-z-]+:iam::[0-9]{12}:role/([!-~]+/)?[0-9A-Za-z_+=,.@-]+$')",message="must be the ARN of a role, such as arn:aws:iam::123456789012:role/ingress"
	ARN string `json:"arn"`
	// externalID that the role's trust policy asks for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1224
	ExternalID string `json:"externalID,omitempty"`
}

// TargetGroupAttachmentStatus is the observed state, and the record of what is ours.
type TargetGroupAttachmentStatus struct {
	// observedGeneration is the generation of the spec that this status describes, -1 before any.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// groupCount is how many target groups match.
	//
	// +optional
	GroupCount int32 `json:"groupCount"`
	// targets is how many should be registered, over all groups.
	//
	// +optional
	Targets int32 `json:"targets"`
	// healthy is how many of them are.
	//
	// +optional
	Healthy int32 `json:"healthy"`
	// leaving is how many were deregistered and may still get traffic.
	//
	// +optional
	Leaving int32 `json:"leaving"`
	// access is how the load balancer reaches the pods; nothing where nodes are selected.
	//
	// +optional
	Access *TargetAccess `json:"access,omitempty"`
	// groups are what is ours in each group. It is written before anything is
	// registered or deregistered, so that nothing is forgotten.
	//
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=100
	Groups []AttachedGroup `json:"groups,omitempty"`
	// conditions are Ready, Reconciling, Stalled, Blocked and Warning.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetAccess is how a load balancer reaches pods: a row of the table in the guide on load
// balancers.
type TargetAccess struct {
	// mode is instance or ip.
	Mode string `json:"mode"`
	// hostNetwork is that of the pods' template.
	HostNetwork bool `json:"hostNetwork"`
	// hostPort says whether they take a port of their node; with hostNetwork they do.
	HostPort bool `json:"hostPort"`
	// note is a clause on what that gives, and what it does not.
	//
	// +optional
	Note string `json:"note,omitempty"`
}

// AttachedGroup is what is ours in a group.
type AttachedGroup struct {
	// id is the ARN of the target group, or the name of the classic load balancer.
	ID string `json:"id"`
	// balancer is the kind of load balancer: network, application or classic.
	//
	// +optional
	Balancer string `json:"balancer,omitempty"`
	// assumeRole is as whom the group was reached; nothing for the controller's own
	// credentials. What was registered as a role is taken out as that role, also where
	// spec.assumeRole names another by then.
	//
	// +optional
	AssumeRole *AssumeRole `json:"assumeRole,omitempty"`
	// targets are registered by us: <id>:<port>, an IPv6 address in brackets, with
	// @<zone> where one is given.
	//
	// +optional
	// +listType=atomic
	Targets []string `json:"targets,omitempty"`
	// unhealthy are those of targets that were not healthy when a node was detached:
	// attaching does not wait for them.
	//
	// +optional
	// +listType=atomic
	Unhealthy []string `json:"unhealthy,omitempty"`
	// leaving are those that are to leave or have left, until their traffic has stopped.
	//
	// +optional
	// +listType=atomic
	Leaving []LeavingTarget `json:"leaving,omitempty"`
}

// LeavingTarget is a target whose traffic has not stopped yet.
type LeavingTarget struct {
	// target is written as in targets.
	Target string `json:"target"`
	// leftAt is when it was first seen draining or not registered.
	//
	// +optional
	LeftAt *metav1.Time `json:"leftAt,omitempty"`
	// quietAt is when the health checker of its node was first seen to tell that no
	// connection came for 10 s and none was left.
	//
	// +optional
	QuietAt *metav1.Time `json:"quietAt,omitempty"`
	// settled says whether nothing wants it, and it has been out for so long that whoever
	// registers it later is somebody else.
	//
	// +optional
	Settled bool `json:"settled,omitempty"`
}
