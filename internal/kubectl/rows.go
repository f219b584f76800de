package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// unseen is how far a rollout is of which the controller has not seen the present spec.
const unseen = "Unseen"

// standing is how far a rollout is, in a word, and why it is no further: what stops it before what
// slows it down.
func standing(set *v1alpha1.IngressDaemonSet) (word, why string) {
	s := set.Status
	progressing := apimeta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
	if progressing == nil || s.ObservedGeneration != set.Generation {
		return unseen, "the controller has not seen the present spec yet"
	}
	for _, bad := range []metav1.Condition{
		{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse}, {Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue},
		{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionWarning, Status: metav1.ConditionTrue},
	} {
		if c := apimeta.FindStatusCondition(s.Conditions, bad.Type); c != nil && c.Status == bad.Status {
			return progressing.Reason, cmp.Or(c.Message, c.Reason)
		}
	}
	if progressing.Reason != v1alpha1.ReasonComplete && len(s.Nodes) > 0 {
		n := s.Nodes[0]
		return progressing.Reason, fmt.Sprintf("%s is %s: %s", n.Name, n.State, n.Reason)
	}
	return progressing.Reason, ""
}

// colourOf is that of how far a rollout is.
func colourOf(set *v1alpha1.IngressDaemonSet) string {
	progressing := apimeta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionProgressing)
	switch word, why := standing(set); {
	case word != unseen && progressing.Status == metav1.ConditionFalse:
		return red
	case word == v1alpha1.ReasonComplete && why == "":
		return green
	}
	return yellow
}

// fleetRows list IngressDaemonSets.
func fleetRows(sets []v1alpha1.IngressDaemonSet, everywhere, wide bool, now time.Time, look style) [][]string {
	head := []string{"NAME", "DESIRED", "SERVING", "UPDATED", "UNAVAILABLE", look.paint(plain, "ROLLOUT"), "AGE", "WHY"}
	if wide {
		head = slices.Insert(head, 7, "REVISION", "IMAGES")
	}
	if everywhere {
		head = slices.Insert(head, 0, "NAMESPACE")
	}
	rows := [][]string{head}
	for i := range sets {
		set, s := &sets[i], sets[i].Status
		word, why := standing(set)
		row := []string{
			set.Name, fmt.Sprint(s.DesiredNodes), fmt.Sprint(s.ServingNodes), fmt.Sprint(s.UpdatedNodes), fmt.Sprint(s.UnavailableNodes),
			look.paint(colourOf(set), word), age(&set.CreationTimestamp, now), why,
		}
		if wide {
			row = slices.Insert(row, 7, s.UpdateRevision, strings.Join(images(&set.Spec.Template.Spec), ","))
		}
		if everywhere {
			row = slices.Insert(row, 0, set.Namespace)
		}
		rows = append(rows, row)
	}
	return rows
}

// topText is all rollouts at once: their rows, and the first nodes of each that do not serve.
func topText(sets []v1alpha1.IngressDaemonSet, everywhere bool, now time.Time, look style) string {
	text := topHeading(sets) + "\n"
	if len(sets) == 0 {
		return text
	}
	text += "\n" + columns(fleetRows(sets, everywhere, false, now, look), "")
	var nodes [][]string
	for i := range sets {
		set := &sets[i]
		name := set.Name
		if everywhere {
			name = set.Namespace + "/" + set.Name
		}
		own := nodeRows(set, nil, now, look)
		for _, row := range own[:min(len(own), mostNamed)] {
			nodes = append(nodes, append([]string{name}, row...))
		}
		if more := len(own) - mostNamed; more > 0 {
			nodes = append(nodes, []string{name, fmt.Sprintf("  and %d more", more), look.paint(plain, ""), "", ""})
		}
	}
	if len(nodes) > 0 {
		text += "\nnodes that do not serve, those of a wave marked *\n" + columns(nodes, "  ")
	}
	return text
}

// topHeading counts rollouts by how far they are, and their nodes.
func topHeading(sets []v1alpha1.IngressDaemonSet) string {
	words := map[string]int{}
	var total v1alpha1.IngressDaemonSetStatus
	for i := range sets {
		word, _ := standing(&sets[i])
		words[word]++
		total.DesiredNodes += sets[i].Status.DesiredNodes
		total.ServingNodes += sets[i].Status.ServingNodes
		total.UnavailableNodes += sets[i].Status.UnavailableNodes
	}
	var parts []string
	for word, count := range words {
		parts = append(parts, fmt.Sprintf("%d %s", count, word))
	}
	slices.Sort(parts)
	text := fmt.Sprintf("%d IngressDaemonSets", len(sets))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text + fmt.Sprintf("; %d nodes desired, %d serving, %d unavailable", total.DesiredNodes, total.ServingNodes, total.UnavailableNodes)
}

// inOrder are the IngressDaemonSets by namespace and name.
func inOrder(sets map[types.NamespacedName]v1alpha1.IngressDaemonSet) []v1alpha1.IngressDaemonSet {
	keys := slices.SortedFunc(maps.Keys(sets), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out []v1alpha1.IngressDaemonSet
	for _, key := range keys {
		out = append(out, sets[key])
	}
	return out
}
