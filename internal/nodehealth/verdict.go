package nodehealth

import (
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// Reasons of an answer.
const (
	// Serving: enough pods are ready and no update is scheduled for them.
	Serving = "Serving"
	// Starting: nothing is known of the node yet.
	Starting = "Starting"
	// Marked: the Deployment has the health-check mark, its pods are to be updated.
	Marked = "Marked"
	// DeploymentMissing: the node has no Deployment.
	DeploymentMissing = "DeploymentMissing"
	// DeploymentTerminating: the node's Deployment is being deleted.
	DeploymentTerminating = "DeploymentTerminating"
	// NoPodsWanted: the node is to run no pods.
	NoPodsWanted = "NoPodsWanted"
	// ShuttingDown: the node stops its pods.
	ShuttingDown = "ShuttingDown"
	// TooFewPodsReady: fewer pods are ready than the node is to run.
	TooFewPodsReady = "TooFewPodsReady"
)

// Decide makes the answer to a health check, all but its ages, and who asked and is
// connected. A mark is
// repeated whatever the reason is, since that is how the controller learns that
// it was seen and will not be forgotten.
func Decide(s State) v1alpha1.HealthCheckAnswer {
	answer := v1alpha1.HealthCheckAnswer{Node: s.Node, Blind: s.Blind}
	if d := s.Deployment; d != nil {
		answer.WantedPods, answer.ReadyPods = d.Wanted, s.readyPods()
		if d.Mark != nil && !s.Unkept {
			answer.Mark = string(*d.Mark)
		}
	}
	answer.Reason, answer.Message = s.judge(answer.ReadyPods)
	answer.Serving = answer.Reason == Serving
	return answer
}

func (s State) judge(ready int32) (reason, message string) {
	d := s.Deployment
	switch {
	case !s.Known:
		return Starting, "the API server has not been reached yet"
	case d == nil:
		return DeploymentMissing, "the node has no Deployment"
	case d.Mark != nil && !d.servesMarked():
		return Marked, "the pods of the node are to be updated"
	case s.ShuttingDown:
		return ShuttingDown, "the node shuts down"
	case d.Terminating:
		return DeploymentTerminating, "the Deployment of the node is being deleted"
	case d.Wanted <= 0:
		return NoPodsWanted, "the node is to run no pods"
	case ready < d.Wanted:
		return TooFewPodsReady, s.count(ready)
	}
	return Serving, s.count(ready)
}

// servesMarked reports whether the mark leaves the health checks as they are until the
// pods are changed.
func (d *Deployment) servesMarked() bool {
	return d.Mark != nil && !d.Released && d.Mark.Is(v1alpha1.MarkServing)
}

func (s State) count(ready int32) string {
	message := fmt.Sprintf("ready pods: %d, wanted: %d", ready, s.Deployment.Wanted)
	if s.Probing {
		message += "; found by the health checker's own probes, because the API server is away or was a moment ago"
	}
	return message
}

func (s State) readyPods() (n int32) {
	for _, pod := range s.Pods {
		if s.ready(pod) {
			n++
		}
	}
	return n
}

// ready is what the API server says, except where that cannot be believed.
func (s State) ready(pod Pod) bool {
	switch {
	case pod.Leaving:
		// A drain hook holds it until the node is out.
		return s.Deployment.servesMarked() && pod.ContainersReady
	case s.distrusts(pod):
		return pod.GatesPassed && s.containersReady(pod)
	}
	return pod.Ready
}

// distrusts reports whether the pod's condition Ready says less than its containers
// do. While the API server is away it is out of date; and a node that was cut
// off from the API server has it set to False on pods that serve, of which
// ContainersReady and the readiness gates are then left as they were.
func (s State) distrusts(pod Pod) bool {
	return s.Probing || s.Cold || !pod.Ready && pod.ContainersReady && pod.GatesPassed
}

// containersReady goes by the own probe of each container, or where that has
// not said anything by the kubelet's last report. One that has never passed, although
// the kubelet's does, does not reach the container from here: it fails on every node.
func (s State) containersReady(pod Pod) bool {
	for _, c := range pod.Containers {
		ready, probed := s.Probed[Container{pod.UID, c.Name}]
		switch {
		case !probed:
			ready = c.Ready && !(s.Cold && c.Probe != nil)
		case !ready && !s.Cold && !s.Proven[Container{pod.UID, c.Name}]:
			ready = c.Ready
		}
		if !ready {
			return false
		}
	}
	return len(pod.Containers) > 0
}
