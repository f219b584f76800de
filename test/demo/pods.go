package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// versionVariable is the part of the template that changes.
const versionVariable = "VERSION"

// states of a pod's life, in the order in which they are told.
var states = []string{"old", "old not ready", "old stopping", "new starting", "new", "new stopping"}

// describePods counts the pods of a node by what they are doing.
func describePods(pods map[types.UID]*corev1.Pod, node string) string {
	counts := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName == node {
			counts[stateOf(pod)]++
		}
	}
	var parts []string
	for _, s := range states {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

func stateOf(pod *corev1.Pod) string {
	age, waiting := "old", "not ready"
	if versionOf(pod) == newVersion {
		age, waiting = "new", "starting"
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return age + " stopping"
	case !serves(pod):
		return age + " " + waiting
	}
	return age
}

func versionOf(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == versionVariable {
			return v.Value
		}
	}
	return ""
}

// serves reports whether a pod is ready and not on its way out.
func serves(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
