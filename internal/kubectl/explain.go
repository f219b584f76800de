package kubectl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// explanation says why a node is in its state, from what stands in the objects. The Node is nil where it is
// gone, events are those that warn of pods.
func explanation(set *v1alpha1.IngressDaemonSet, name string, node *corev1.Node, deployments []appsv1.Deployment, pods []corev1.Pod, events []corev1.Event, now time.Time) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(printable(fmt.Sprintf(format, args...)) + "\n") }
	say("Node %s of IngressDaemonSet %s/%s", name, set.Namespace, set.Name)
	say("")
	i := slices.IndexFunc(set.Status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == name })
	inWave := slices.Contains(set.Status.Wave, name)
	d := deploymentOf(deployments, name)
	switch {
	case i >= 0:
		n := set.Status.Nodes[i]
		say("It is %s%s: %s.", n.State, since(age(n.Since, now)), n.Reason)
	case d == nil && len(set.Status.Nodes) >= mostListed:
		say("It has no Deployment. The status names only the first 50 nodes that do not serve.")
	case d == nil:
		say("It is not in the node set: spec.nodeSelector and the template's node selector, affinity and tolerations decide that.")
	case len(set.Status.Nodes) >= mostListed:
		say("It serves, or is not among the first 50 nodes that do not.")
	default:
		say("It serves.")
	}
	switch {
	case inWave:
		say("It is under way: its turn ends when it serves the present template.")
	case d != nil && revisionOf(d) != set.Status.UpdateRevision && set.Status.UpdateRevision != "":
		say("It waits for its turn: it has revision %s, and %s is wanted.", revisionOf(d), set.Status.UpdateRevision)
	}
	if a, r := set.Status.Analysis, set.Status.Rejected; r != nil {
		say("Revision %s was rejected, nodes are taken back to %s: %s.", r.Revision, set.Status.CurrentRevision, r.Message)
	} else if !inWave && a != nil && a.Phase != v1alpha1.AnalysisPassed {
		say("No node begins before the last wave has passed its analysis: %s.", analysisInWords(a))
	}
	switch {
	case node == nil:
		say("There is no such Node any more.")
		node = &corev1.Node{}
	case !objects.NodeReady(node):
		say("The Node is NotReady, so it counts as out, whatever its pods do.")
	}
	if node.Spec.Unschedulable {
		say("The Node is cordoned.")
	}
	if rows := append(detachmentRows(set, node, d), podRows(pods, events, now)...); len(rows) > 0 {
		b.WriteString("\n" + columns(rows, ""))
	}
	return b.String()
}

func since(age string) string {
	if age == "" {
		return ""
	}
	return " for " + age
}

func deploymentOf(all []appsv1.Deployment, node string) *appsv1.Deployment {
	i := slices.IndexFunc(all, func(d appsv1.Deployment) bool { return d.Annotations[v1alpha1.AnnotationNode] == node })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func revisionOf(d *appsv1.Deployment) string { return d.Spec.Template.Labels[v1alpha1.LabelRevision] }

// detachmentRows say who keeps traffic away from a node.
func detachmentRows(set *v1alpha1.IngressDaemonSet, node *corev1.Node, d *appsv1.Deployment) [][]string {
	var rows [][]string
	add := func(what, by string) { rows = append(rows, []string{what, by}) }
	if d != nil {
		add("Deployment", fmt.Sprintf("%s, %d of %d pods ready", d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas))
		known := set.Spec.Strategy().MarkKey
		if mark, marked := v1alpha1.MarkOf(d.Annotations, known); marked {
			by := ""
			if _, ours := mark.At(); !ours {
				by = ", set by somebody else"
			}
			add("Health checks", "made to fail by the mark "+v1alpha1.MarkKeyOf(d.Annotations, known)+"="+string(mark)+by)
		}
		if value, there := d.Annotations[v1alpha1.AnnotationHold]; v1alpha1.HoldOf(d.Annotations) != nil {
			add("Held back", value)
		} else if there {
			add("Not held back", "by "+v1alpha1.AnnotationHold+"="+value+", set by somebody else")
		}
	}
	if a := set.Spec.Strategy().AnnotateNode; a != nil {
		if value, ok := node.Annotations[a.Key]; ok {
			add("Detached by", a.Key+"="+value+heldBy(set, node))
		}
		if stamp := node.Annotations[a.TimestampKey]; a.TimestampKey != "" && stamp != "" {
			add("Detacher's answer", a.TimestampKey+"="+stamp)
		}
	}
	return rows
}

func heldBy(set *v1alpha1.IngressDaemonSet, node *corev1.Node) string {
	ours, others := false, 0
	for key := range node.Annotations {
		if uid, asked := v1alpha1.DetachmentRequester(key); asked {
			ours = ours || uid == set.UID
			if uid != set.UID {
				others++
			}
		}
	}
	switch {
	case ours && others > 0:
		return fmt.Sprintf(", asked for by this and %d other IngressDaemonSets", others)
	case ours:
		return ", asked for by this IngressDaemonSet"
	case others > 0:
		return fmt.Sprintf(", asked for by %d other IngressDaemonSets", others)
	}
	return ", set by somebody else"
}

// podRows are the pods of a node, each with why it is not ready.
func podRows(pods []corev1.Pod, events []corev1.Event, now time.Time) [][]string {
	var rows [][]string
	for i := range pods {
		p := &pods[i]
		why := ""
		if said := objects.Unready(p, events); said != "" && p.DeletionTimestamp == nil {
			why = ": " + said
		}
		rows = append(rows, []string{"Pod", fmt.Sprintf("%s, %s, revision %s, %s old%s", p.Name, podState(p), p.Labels[v1alpha1.LabelRevision], age(&p.CreationTimestamp, now), why)})
	}
	return rows
}

// podState is how far a pod is. Its phase tells nothing of one that no kubelet has taken up.
func podState(p *corev1.Pod) string {
	begun := len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) > 0
	switch {
	case p.DeletionTimestamp != nil:
		return "terminating"
	case objects.PodReady(p):
		return "ready"
	case p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "" && !begun:
		return "not taken up by the node's kubelet yet"
	case p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		return string(p.Status.Phase)
	}
	return "not ready"
}
