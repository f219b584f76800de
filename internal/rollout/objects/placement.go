package objects

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// OnlyWhere lets health checkers run on the nodes of others instead of their own, by the same
// node selector, affinity and tolerations.
func OnlyWhere(checkers, others *appsv1.DaemonSet) {
	pod, other := &checkers.Spec.Template.Spec, &others.Spec.Template.Spec
	pod.NodeSelector, pod.Affinity, pod.Tolerations = other.NodeSelector, other.Affinity, other.Tolerations
	labelCheckers(checkers)
}

// AlsoWhere lets health checkers run beside their own nodes on those of others too, by
// whichever node selector, affinity and tolerations bring them there.
func AlsoWhere(checkers, others *appsv1.DaemonSet) {
	pod, other := &checkers.Spec.Template.Spec, &others.Spec.Template.Spec
	switch own, theirs := nodeTerms(pod), nodeTerms(other); {
	case own == nil:
	case theirs == nil:
		pod.NodeSelector, pod.Affinity = nil, nil
	default:
		if terms := union(own, theirs); len(terms) > len(own) {
			pod.NodeSelector, pod.Affinity = nil, requiring(terms)
		}
	}
	pod.Tolerations = union(pod.Tolerations, other.Tolerations)
	labelCheckers(checkers)
}

// nodeTerms are the terms of which one has to match a node, nil where each node does.
func nodeTerms(pod *corev1.PodSpec) []corev1.NodeSelectorTerm {
	var selected []corev1.NodeSelectorRequirement
	for _, key := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
		selected = append(selected, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{pod.NodeSelector[key]}})
	}
	var required *corev1.NodeSelector
	if pod.Affinity != nil && pod.Affinity.NodeAffinity != nil {
		required = pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	switch {
	case required == nil && selected == nil:
		return nil
	case required == nil:
		return []corev1.NodeSelectorTerm{{MatchExpressions: selected}}
	}
	terms := []corev1.NodeSelectorTerm{}
	for _, t := range required.NodeSelectorTerms {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			// It matches no node, and with the selector's expressions would match some.
			continue
		}
		t.MatchExpressions = slices.Concat(t.MatchExpressions, selected)
		terms = append(terms, t)
	}
	return terms
}

func requiring(terms []corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// union are the elements of a, then those of b that are not among them.
func union[T any](a, b []T) []T {
	out := slices.Clone(a)
	for _, e := range b {
		if !slices.ContainsFunc(out, func(o T) bool { return equality.Semantic.DeepEqual(o, e) }) {
			out = append(out, e)
		}
	}
	return out
}
