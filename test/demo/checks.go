package main

import (
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// served is an error where, between two snapshots, a node answered nothing, or
// anything answered that has another version.
func (r *rollout) served(from, to traffic.Snapshot, version string) error {
	for _, n := range r.harness.Nodes() {
		if to.ByNode[n.Name()] == from.ByNode[n.Name()] {
			return fmt.Errorf("%s served no request", n.Name())
		}
	}
	for v, count := range to.ByVersion {
		if v != version && count != from.ByVersion[v] {
			return fmt.Errorf("%d requests were served by version %s instead of %s", count-from.ByVersion[v], v, version)
		}
	}
	return nil
}

// replaced is an error where a pod of before is left, or there are not as many as
// before.
func replaced(before, after map[types.UID]*corev1.Pod) error {
	for uid, pod := range after {
		if before[uid] != nil {
			return fmt.Errorf("pod %s was not replaced", pod.Name)
		}
	}
	if len(after) != len(before) {
		return fmt.Errorf("there are %d pods, and there were %d", len(after), len(before))
	}
	return nil
}

// enough is an error where the machine did not manage the load that is promised.
func enough(report traffic.Report) error {
	if report.Rate < leastRate {
		return fmt.Errorf("only %.0f requests a second were sent instead of %d: is this machine busy otherwise?", report.Rate, leastRate)
	}
	return nil
}
