// Package nodehealth judges whether a node serves: from what is known of its
// Deployment and pods, Decide makes the answer to the external load balancer's
// health check. The package is pure; package server feeds and answers.
package nodehealth

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// State is all that is known of one node and one IngressDaemonSet. It is
// stored as JSON, so that a checker can start where the API server is away.
type State struct {
	Node string `json:"node"`
	// Known is false until the API server, or a stored State, told the rest.
	Known      bool        `json:"known"`
	Deployment *Deployment `json:"deployment,omitempty"`
	Pods       []Pod       `json:"pods,omitempty"`
	// LostAt is when the API server was last heard of; zero while it is watched.
	LostAt time.Time `json:"lostAt,omitzero"`

	// Unkept says whether the mark would be lost with this process: until it is stored it
	// fails the health check and is not acknowledged.
	Unkept bool `json:"-"`

	// ShuttingDown says whether the node stops its pods, this checker among them, without
	// that they are deleted.
	ShuttingDown bool `json:"-"`

	// Blind is why the API server could not be read for long; empty where it can.
	Blind string `json:"-"`

	// Probing says whether the checker's own probes judge every pod: the API server
	// is away, or has been until a moment ago and the kubelet may not have
	// reported yet.
	Probing bool `json:"-"`
	// Cold says whether Pods come from a stored State: what can be probed is then
	// not ready before it has been.
	Cold bool `json:"-"`
	// Probed is what own probes found, for the containers they run on.
	Probed map[Container]bool `json:"-"`
	// Proven are the containers of which an own probe has ever passed.
	Proven map[Container]bool `json:"proven,omitempty"`
}

// Deployment is the node's Deployment.
type Deployment struct {
	Name        string `json:"name"`
	Terminating bool   `json:"terminating,omitempty"`
	// Wanted is how many ready pods make the node serve.
	Wanted int32 `json:"wanted"`
	// Mark is the value of the health-check mark; nil where there is no mark.
	Mark *v1alpha1.Mark `json:"mark,omitempty"`
	// MarkKey is the key on record for the mark; empty where there is none.
	MarkKey string `json:"markKey,omitempty"`
	// Released says whether the pods were changed, or stopped, since the mark: whoever
	// did that knows that no traffic reaches them any more.
	Released bool `json:"released,omitempty"`
}

// Pod is a pod of the node's Deployment.
type Pod struct {
	UID  types.UID `json:"uid"`
	Name string    `json:"name"`
	IP   string    `json:"ip,omitempty"`
	// Leaving says whether the pod terminates or has ended: it never serves again.
	Leaving bool `json:"leaving,omitempty"`
	// Ending says whether the pod terminates and has not ended.
	Ending bool `json:"ending,omitempty"`
	// Grace is how long it is, or would be, given from its deletion until it is killed. When that is
	// counts by the checker's own clock, never by the time that the API server wrote.
	Grace time.Duration `json:"grace,omitempty"`
	// Drains says whether the pod has a drain hook.
	Drains bool `json:"drains,omitempty"`
	// InTargets says whether the pod may get traffic as a target of its own.
	InTargets bool `json:"inTargets,omitempty"`
	// Ready and ContainersReady are the pod's conditions.
	Ready           bool `json:"ready,omitempty"`
	ContainersReady bool `json:"containersReady,omitempty"`
	// GatesPassed says whether the condition of each readiness gate is True.
	GatesPassed bool `json:"gatesPassed,omitempty"`
	// Containers are those whose readiness makes up the pod's.
	Containers []ContainerState `json:"containers,omitempty"`
}

// ContainerState is a container and how the kubelet last reported it.
type ContainerState struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready,omitempty"`
	// Probe is the readiness probe with its port as a number; nil where there is
	// none that the checker can run.
	Probe *corev1.Probe `json:"probe,omitempty"`
}

// Container names a container of a pod.
type Container struct {
	Pod  types.UID
	Name string
}

// MarshalText makes a key of JSON of it.
func (c Container) MarshalText() ([]byte, error) { return []byte(string(c.Pod) + "/" + c.Name), nil }

// UnmarshalText reads what MarshalText wrote.
func (c *Container) UnmarshalText(text []byte) error {
	pod, name, _ := strings.Cut(string(text), "/")
	*c = Container{types.UID(pod), name}
	return nil
}
