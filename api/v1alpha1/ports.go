package v1alpha1

import (
	"slices"
	"strconv"
	"strings"
)

// ReleasedPorts are those that AnnotationReleasedPorts of an IngressDaemonSet lists, in order and each
// once. What is no number is left out.
func ReleasedPorts(annotations map[string]string) []int32 {
	var ports []int32
	for entry := range strings.SplitSeq(annotations[AnnotationReleasedPorts], ",") {
		if port, err := strconv.ParseInt(strings.TrimSpace(entry), 10, 32); err == nil {
			ports = append(ports, int32(port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// SetReleasedPorts writes that of an IngressDaemonSet, whose annotations may be nil: none where there
// is no port.
func SetReleasedPorts(set *IngressDaemonSet, ports []int32) {
	if len(ports) == 0 {
		delete(set.Annotations, AnnotationReleasedPorts)
		return
	}
	entries := make([]string, len(ports))
	for i, port := range ports {
		entries[i] = strconv.Itoa(int(port))
	}
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	set.Annotations[AnnotationReleasedPorts] = strings.Join(entries, ",")
}
