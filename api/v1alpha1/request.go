package v1alpha1

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// DetachmentRequest is what an IngressDaemonSet remembers on a Node, under
// DetachmentRequestKey, of the detachment that it asked for.
// +kubebuilder:object:generate=false
type DetachmentRequest struct {
	At time.Time `json:"at"`
	// Key is the annotation that asked; that of releases before v0.2.0 is not known.
	Key string `json:"key,omitempty"`
	// StaleTimestamp is the detacher's timestamp that was there before and belonged to a
	// detachment that had ended.
	StaleTimestamp string `json:"staleTimestamp,omitempty"`
}

// DetachmentRequestKey is the annotation of the request of the IngressDaemonSet with a UID.
func DetachmentRequestKey(uid types.UID) string { return AnnotationDetachPrefix + string(uid) }

// DetachmentRequester is the UID of the IngressDaemonSet whose request an annotation is; ok is
// false where it is none.
func DetachmentRequester(key string) (uid types.UID, ok bool) {
	id, ok := strings.CutPrefix(key, AnnotationDetachPrefix)
	return types.UID(id), ok
}

// DetachmentRequestOf is the request of the IngressDaemonSet with a UID among the annotations
// of a Node, nil where there is none. Its presence counts, also where its value is empty or
// somebody else's: what cannot be read of it is zero.
func DetachmentRequestOf(annotations map[string]string, uid types.UID) *DetachmentRequest {
	value, present := annotations[DetachmentRequestKey(uid)]
	if !present {
		return nil
	}
	request := &DetachmentRequest{}
	_ = json.Unmarshal([]byte(value), request)
	return request
}

// Value is how the request is written into its annotation.
func (r DetachmentRequest) Value() string {
	r.At = r.At.UTC()
	// It consists of plain values, which always encode.
	value, _ := json.Marshal(r)
	return string(value)
}
