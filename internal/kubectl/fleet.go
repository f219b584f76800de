package kubectl

import (
	"context"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fleet is the objects that a plan is made from. Deployments and pods are by node.
type fleet struct {
	nodes       []corev1.Node
	deployments map[string]*appsv1.Deployment
	pods        map[string][]*corev1.Pod
	daemonSets  []appsv1.DaemonSet
	revisions   []appsv1.ControllerRevision
}

func readFleet(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet) (fleet, error) {
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes); err != nil {
		return fleet{}, err
	}
	return readOwn(ctx, api, set, nodes.Items, client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)})
}

// readNode is the fleet as far as it concerns one node, which may be gone.
func readNode(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet, name string) (fleet, error) {
	nodes := make([]corev1.Node, 1)
	switch err := api.Get(ctx, client.ObjectKey{Name: name}, &nodes[0]); {
	case apierrors.IsNotFound(err):
		nodes = nil
	case err != nil:
		return fleet{}, err
	}
	return readOwn(ctx, api, set, nodes, client.MatchingLabels{
		v1alpha1.LabelName: v1alpha1.LabelValue(set.Name), v1alpha1.LabelNode: v1alpha1.LabelValue(name),
	})
}

// readOwn reads what belongs to the IngressDaemonSet beside the nodes.
func readOwn(ctx context.Context, api client.Client, set *v1alpha1.IngressDaemonSet, nodes []corev1.Node, labels client.MatchingLabels) (fleet, error) {
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	var daemonSets appsv1.DaemonSetList
	var revisions appsv1.ControllerRevisionList
	for _, list := range []client.ObjectList{&deployments, &pods, &daemonSets, &revisions} {
		if err := api.List(ctx, list, client.InNamespace(set.Namespace), labels); err != nil {
			return fleet{}, err
		}
	}
	f := fleet{nodes, map[string]*appsv1.Deployment{}, map[string][]*corev1.Pod{}, daemonSets.Items, revisions.Items}
	for i := range deployments.Items {
		f.deployments[deployments.Items[i].Annotations[v1alpha1.AnnotationNode]] = &deployments.Items[i]
	}
	for i := range pods.Items {
		// Health checkers are not annotated.
		if name := pods.Items[i].Annotations[v1alpha1.AnnotationNode]; name != "" {
			f.pods[name] = append(f.pods[name], &pods.Items[i])
		}
	}
	return f, nil
}

// state is what the planner would see with the spec of set. Health checks, which
// are not asked, are taken to say what the status and the pods do.
func (f fleet) state(live, set *v1alpha1.IngressDaemonSet, now time.Time) (rollout.State, error) {
	s := rollout.State{
		Now: now, Generation: live.Generation, Spec: set.Spec, Status: live.Status,
		Revision: objects.Revision(objects.Template(set)), Revisions: map[string]bool{}, DryRun: rollout.DryRun{Done: true},
	}
	if a := set.Spec.Strategy().AnnotateNode; a != nil {
		// Which the operator permits is not known here. Where it is none of these, the status
		// of a spec that is not changed says so.
		s.Detachers = []rollout.Detacher{{Ask: a.Key, Answer: a.TimestampKey}}
	}
	if !equality.Semantic.DeepEqual(live.Spec, set.Spec) {
		s.Generation++
	} else if blocked := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBlocked); blocked != nil && blocked.Status == "True" && !planned[blocked.Reason] {
		s.Faults = []rollout.Fault{{Reason: blocked.Reason, Message: blocked.Message}}
	}
	for _, r := range ownRevisions(live, f.revisions) {
		s.Revisions[r.Labels[v1alpha1.LabelRevision]] = true
	}
	checkers := map[int32]bool{}
	for _, ds := range f.daemonSets {
		for _, port := range slices.Concat(live.Spec.HealthCheckNodePorts, set.Spec.HealthCheckNodePorts) {
			if ds.Labels[v1alpha1.LabelHealthCheckPort] == objects.PortLabel(port) {
				checkers[port] = true
			}
		}
	}
	for _, port := range set.Spec.HealthCheckNodePorts {
		s.Checkers = append(s.Checkers, rollout.Checker{Port: port, Wanted: true, Exists: checkers[port]})
	}
	read := objects.ReaderOf(set)
	for i := range f.nodes {
		name := f.nodes[i].Name
		n, err := read.Node(name, &f.nodes[i], f.deployments[name], f.pods[name])
		if err != nil {
			return s, err
		}
		if !n.Wanted && n.Deployment == nil && !n.Detachment.Requested {
			continue
		}
		n.CheckersSettled = true
		n.Checks = checks(&n, set, live.Status)
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}

// planned are the reasons for Blocked that a plan comes to on its own.
var planned = map[string]bool{
	v1alpha1.ReasonFloorReached: true, v1alpha1.ReasonNodeNotReady: true, v1alpha1.ReasonBudgetExhausted: true,
	v1alpha1.ReasonHealthCheckerNotReady: true, v1alpha1.ReasonAttachTimedOut: true,
	v1alpha1.ReasonHealthCheckerBlind: true,
}

// checks are the answers of a node's health-check ports, and of the Service's where there is one.
func checks(n *rollout.Node, set *v1alpha1.IngressDaemonSet, status v1alpha1.IngressDaemonSetStatus) []rollout.Check {
	if n.Deployment == nil {
		return nil
	}
	c := rollout.Check{Answered: true, Serving: n.Deployment.Mark == "" && !n.Deployment.EmptyMark, Mark: n.Deployment.Mark}
	for _, reported := range status.Nodes {
		if reported.Name == n.Name && reported.State == v1alpha1.NodeUnavailable {
			c.Serving = false
		}
	}
	var out []rollout.Check
	for _, c.Port = range set.Spec.HealthCheckNodePorts {
		out = append(out, c)
	}
	if set.Spec.ServiceName != "" {
		c.Port, c.Unmarked = 0, true
		out = append(out, c)
	}
	return out
}

// pace is how long the present pods took to be ready, as the median, and of how many.
// A pod tells when it became ready last: where that is later than a start may take, or
// a container was started again since, it has been unready meanwhile and tells nothing.
func (f fleet) pace(longest time.Duration) (ready time.Duration, pods int) {
	var took []time.Duration
	for _, pods := range f.pods {
		for _, pod := range pods {
			if t, told := readyAfter(pod); told && t <= longest {
				took = append(took, t)
			}
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return took[len(took)/2], len(took)
}

// readyAfter is how long after its creation the containers of a pod were ready. The
// condition Ready also changes where nothing happens to the pod but to its node's lease.
func readyAfter(pod *corev1.Pod) (took time.Duration, told bool) {
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }) {
		return 0, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Sub(pod.CreationTimestamp.Time), true
		}
	}
	return 0, false
}
