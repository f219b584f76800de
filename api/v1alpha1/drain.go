package v1alpha1

import (
	"strconv"
	"time"
)

// DrainedAt is when somebody else was seen to drain the node of a Deployment. Its presence
// counts, also where its value is empty or cannot be read: then the time is zero.
func DrainedAt(annotations map[string]string) (at time.Time, drained bool) {
	_, drained = annotations[AnnotationDrainedAt]
	return Moment(annotations, AnnotationDrainedAt), drained
}

// PodsPerNode is how many ready pods make the node of a Deployment serve; ok is false where
// the annotation does not say so, or says less than none.
func PodsPerNode(annotations map[string]string) (pods int32, ok bool) {
	n, err := strconv.ParseInt(annotations[AnnotationPodsPerNode], 10, 32)
	if err != nil || n < 0 {
		return 0, false
	}
	return int32(n), true
}

// PodsPerNodeValue is how that is written.
func PodsPerNodeValue(pods int32) string { return strconv.Itoa(int(pods)) }

// DetachedValue is the value of AnnotationDetached: who asked for it, and when.
func DetachedValue(who string, at time.Time) string { return who + " " + at.UTC().Format(time.RFC3339) }

// IsDetached reports whether somebody wants the node of a Deployment out of the load balancer, also
// where it is not said who.
func IsDetached(annotations map[string]string) bool {
	_, detached := annotations[AnnotationDetached]
	return detached
}
