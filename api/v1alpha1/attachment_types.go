package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Attachment is there while a node is, or is being, taken out of its load balancers
// and put back. It is named after the node. What the node was attached to is
// remembered in its status before anything is taken out, so that it can be put back
// by whoever comes next, also by hand.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=attachments,singular=attachment
// +kubebuilder:printcolumn:name="Instance",type=string,JSONPath=`.spec.instance`
// +kubebuilder:printcolumn:name="Wanted",type=string,JSONPath=`.spec.wanted`
// +kubebuilder:printcolumn:name="Done",type=boolean,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="Waits",type=string,JSONPath=`.status.waits`
// +kubebuilder:printcolumn:name="Groups",type=string,JSONPath=`.status.groups[*].id`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Attachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AttachmentSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AttachmentStatus `json:"status,omitempty"`
}

// AttachmentList is a list of Attachments.
//
// +kubebuilder:object:root=true
type AttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Attachment `json:"items"`
}

// AttachmentSpec is where a node's targets are to be.
type AttachmentSpec struct {
	// instance is the id of the node's machine, empty where the cloud knows none. A
	// node of the same name on another machine is not the one that was detached.
	//
	// +optional
	Instance string `json:"instance,omitempty"`
	// wanted is Detached or Attached.
	//
	// +required
	Wanted AttachmentWanted `json:"wanted"`
}

// AttachmentWanted is where a node's targets are to be.
//
// +kubebuilder:validation:Enum=Detached;Attached
type AttachmentWanted string

const (
	// WantDetached: out of every load balancer.
	WantDetached AttachmentWanted = "Detached"
	// WantAttached: in every one that it was in.
	WantAttached AttachmentWanted = "Attached"
)

// AttachmentStatus is how far the node's targets are.
type AttachmentStatus struct {
	// observedGeneration is the generation of the spec that the rest answers to, -1 before any.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// groups are those that the node was in, and its targets in each. They are
	// written before anything is taken out.
	//
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=200
	Groups []AttachedGroup `json:"groups,omitempty"`
	// foreign are targets on the node that are left alone: <id>:<port> in <group>. Somebody
	// else registered the node's address, or the group is one in which nothing can be put
	// back. They delay nothing, and are known only of groups that are read anyway.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Foreign []string `json:"foreign,omitempty"`
	// done says whether all targets of the node are where they are wanted: traffic to
	// them has stopped, or flows again.
	//
	// +optional
	Done bool `json:"done,omitempty"`
	// evidence is how it is known that traffic has stopped.
	//
	// +optional
	Evidence string `json:"evidence,omitempty"`
	// waits says in a sentence what is waited for.
	//
	// +optional
	Waits string `json:"waits,omitempty"`
	// withoutCloud says whether the controller answered that ran without --cloud: no target group was
	// asked, and nothing was remembered.
	//
	// +optional
	WithoutCloud bool `json:"withoutCloud,omitempty"`
	// conditions are Ready, Reconciling and Stalled.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Answered reports whether whoever moves targets has answered to what the object wants now: all that
// the node has is remembered in the status then. What was written without a cloud is no such answer.
func (a *Attachment) Answered() bool {
	return a.Status.ObservedGeneration == a.Generation && !a.Status.WithoutCloud
}
