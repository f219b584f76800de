package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold is the value of AnnotationHold: a Deployment is held back because the kubelet rejects
// its pods.
// +kubebuilder:object:generate=false
type Hold struct {
	// Attempts is how often the pods of Revision were tried in vain.
	Attempts int    `json:"attempts"`
	Revision string `json:"revision"`
	// Generation is that of the spec they were tried with: another spec, such as
	// one with less surge, is worth a try at once.
	Generation int64  `json:"generation"`
	Reason     string `json:"reason"`
	// At is when the hold began, or when it was last tried again.
	At metav1.MicroTime `json:"at"`
	// Replicas is how many pods are held or tried, Paused whether halfway between
	// two revisions.
	Replicas int32 `json:"replicas"`
	Paused   bool  `json:"paused,omitempty"`
	// Trying says whether all pods are asked for again, and the outcome is open.
	Trying bool `json:"trying,omitempty"`
	// Terminating says whether older pods were still there, whose end is reason to try again.
	Terminating bool `json:"terminating,omitempty"`
	// ReplicaSet is the hash of the ReplicaSet whose template the Deployment went back
	// to, empty where it kept its own.
	ReplicaSet string `json:"replicaSet,omitempty"`
}

// HoldOf is the hold among the annotations of a node's Deployment, nil where there is none.
// One that is empty, cannot be read or names no revision is somebody else's, and holds nothing back.
func HoldOf(annotations map[string]string) *Hold {
	hold := &Hold{}
	if json.Unmarshal([]byte(annotations[AnnotationHold]), hold) != nil || hold.Revision == "" {
		return nil
	}
	return hold
}

// Value is how the hold is written into AnnotationHold.
func (h *Hold) Value() string {
	// A Hold consists of plain values, which always encode.
	value, _ := json.Marshal(h)
	return string(value)
}
