package v1alpha1

// Labels of Deployments and their pods.
const (
	// LabelNode names the node; a name over 63 characters is cut and hashed.
	LabelNode = "ingress-daemon-for-node"
	// LabelName names the IngressDaemonSet; a name over 63 characters is cut and hashed.
	LabelName = "ingressdaemonsets.mumoshu.github.io/name"
	// LabelRevision is the revision of the user's template, on pods.
	LabelRevision = "ingressdaemonsets.mumoshu.github.io/revision"
	// LabelHealthCheckPort is the port on health-checker DaemonSets and their
	// pods, which carry LabelName but not LabelNode.
	LabelHealthCheckPort = "ingressdaemonsets.mumoshu.github.io/health-check-port"
	// LabelHealthCheckerRevision is the hash of the health checker's pod template, on its pods.
	LabelHealthCheckerRevision = "ingressdaemonsets.mumoshu.github.io/health-checker-revision"
)

// Annotations of a node's Deployment.
const (
	// DefaultMarkKey is the key of the health-check mark where annotateDeploymentToDetach sets none.
	DefaultMarkKey = "ingressdaemonsets.mumoshu.github.com/to-be-updated"
	// MarkServing ends the value of a health-check mark with which the health checks
	// go on passing until the pods are changed.
	MarkServing = "/serving"
	// MarkOutOfTurn ends the value of a health-check mark of a node that served nothing
	// when it was marked: it was not its turn.
	MarkOutOfTurn = "/out-of-turn"
	// AnnotationMarkKey holds the key under which the health-check mark of this
	// Deployment is looked for, so that a change of the key strands no mark.
	AnnotationMarkKey = "ingressdaemonsets.mumoshu.github.io/mark-key"
	// AnnotationNode is the whole name of the node.
	AnnotationNode = "ingressdaemonsets.mumoshu.github.io/node"
	// AnnotationPodsPerNode is how many ready pods make the node serve. It stays
	// when the Deployment is scaled down for a while.
	AnnotationPodsPerNode = "ingressdaemonsets.mumoshu.github.io/pods-per-node"
	// AnnotationUpdatedAt is when the pods were last changed, RFC 3339.
	AnnotationUpdatedAt = "ingressdaemonsets.mumoshu.github.io/updated-at"
	// AnnotationAttachedAt is when the last mark was removed, RFC 3339.
	AnnotationAttachedAt = "ingressdaemonsets.mumoshu.github.io/attached-at"
	// AnnotationHold says, as JSON, that the Deployment is held at fewer pods
	// because the kubelet rejects them, and when that is tried again.
	AnnotationHold = "ingressdaemonsets.mumoshu.github.io/hold"
	// AnnotationDetached keeps the node out of the load balancer for as long as it is
	// there, within the budget and as minServingNodes permits. Its value is who asked for it.
	AnnotationDetached = "ingressdaemonsets.mumoshu.github.io/detached"
	// AnnotationClaimDropped is when the node's name was last taken out of status.wave
	// before the node was touched, RFC 3339.
	AnnotationClaimDropped = "ingressdaemonsets.mumoshu.github.io/claim-dropped-at"
	// AnnotationDrainedAt is when somebody else was seen to drain the node, RFC 3339.
	AnnotationDrainedAt = "ingressdaemonsets.mumoshu.github.io/drained-at"
)

// node-detacher's contract, on Nodes, pods and DaemonSets (github.com/mumoshu/node-detacher).
const (
	// AnnotationNodeDetached asks for the Node to be detached; its presence counts.
	AnnotationNodeDetached = "node-detacher.variant.run/detached"
	// AnnotationNodeDetaching is "true" from when a Node is taken out until it is
	// attached again in every group, then "false".
	AnnotationNodeDetaching = "node-detacher.variant.run/detaching"
	// AnnotationDetachmentTimestamp is when traffic to the Node had stopped, RFC 3339.
	AnnotationDetachmentTimestamp = "node-detacher.variant.run/detachment-timestamp"
	// AnnotationAttachmentTimestamp is when the Node was attached again, RFC 3339.
	AnnotationAttachmentTimestamp = "node-detacher.variant.run/attachment-timestamp"
	// AnnotationDeletionPriority on a pod of a node that goes away is its place in
	// the order in which pods are stopped, the greatest integer first.
	AnnotationDeletionPriority = "node-detacher.variant.run/deletion-priority"
	// AnnotationDisableEviction "true" on a pod deletes it without regard to disruption budgets.
	AnnotationDisableEviction = "node-detacher.variant.run/disable-eviction"
	// AnnotationManagedBy on a DaemonSet names who stops its pods, if not this controller.
	AnnotationManagedBy = "node-detacher.variant.run/managed-by"
	// TaintDetaching (NoSchedule) is on a Node whose pods are stopped.
	TaintDetaching = "node-detacher.variant.run/detaching"
	// NodeBeingDetached is the Node's condition while it is out.
	NodeBeingDetached = "NodeBeingDetached"

	// AnnotationDetachmentEvidence says how it is known that traffic had stopped.
	AnnotationDetachmentEvidence = "ingressdaemonsets.mumoshu.github.io/detachment-evidence"
	// LabelExclude is Kubernetes' label of Nodes that load balancers are to leave out.
	LabelExclude = "node.kubernetes.io/exclude-from-external-load-balancers"
	// ExcludedByUs is the value that this controller gives that label.
	ExcludedByUs = "ingress-daemonset"
)

// AnnotationDetachPrefix starts the key of the annotation in which an
// IngressDaemonSet remembers on a Node that it asked for its detachment; the
// UID of the IngressDaemonSet follows.
const AnnotationDetachPrefix = "detach.ingressdaemonsets.mumoshu.github.io/"

// ReadinessGatePrefix starts the condition type of pods that is True while the pod's
// target takes traffic; the name of the TargetGroupAttachment follows. It
// is set only on pods that have it among their readiness gates.
const ReadinessGatePrefix = "target-health.ingressdaemonsets.mumoshu.github.io/"

// Annotations of an IngressDaemonSet and of its ControllerRevisions.
const (
	// AnnotationPromoted on an IngressDaemonSet is status.analysis.began of an
	// analysis that is not to be waited for.
	AnnotationPromoted = "ingressdaemonsets.mumoshu.github.io/promoted-analysis"
	// AnnotationAborted on an IngressDaemonSet is the revision of a rollout that somebody aborted, a
	// slash, and the revision that the template went back to: kubectl ids rollout retry tries the
	// first again where the template is still the second.
	AnnotationAborted = "ingressdaemonsets.mumoshu.github.io/aborted"
	// AnnotationReleasedPorts on an IngressDaemonSet lists health-check ports, separated by
	// commas, that were removed from the spec and are closed without waiting until nobody
	// else asks them any more.
	AnnotationReleasedPorts = "ingressdaemonsets.mumoshu.github.io/released-health-check-ports"
	// AnnotationAllowForegroundDeletion on an IngressDaemonSet permits its deletion in the
	// foreground, which stops the pods of all nodes at once. Its presence counts.
	AnnotationAllowForegroundDeletion = "ingressdaemonsets.mumoshu.github.io/allow-foreground-deletion"
	// AnnotationUserTemplate on a ControllerRevision is the strategic merge patch that turns
	// the template on record, which has what the controller added, into the user's own.
	AnnotationUserTemplate = "ingressdaemonsets.mumoshu.github.io/user-template"
)

// Headers of requests to health checkers and of their answers.
const (
	// HeaderClient names the program of this project that asks a health-check port, such
	// as "controller". A request without it is taken for the external load balancer's, and
	// so is a connection that ends without a request.
	HeaderClient = "Ingress-Daemonset-Client"
	// HeaderLife on a request that waits (HealthCheckAnswer) is in how many seconds it
	// wants to see a sign of life: the health checker then sends the interim response 102
	// Processing (RFC 2518, section 10.1) at once, and that often until it answers. Health
	// checkers that do so have it in each answer; those of v0.1.0 do not.
	HeaderLife = "Ingress-Daemonset-Life"
)

// LifeSeconds is the least that HeaderLife asks for, and what health checkers say.
const LifeSeconds = 5

// DrainPath is the path and query of the drain hook: a health checker answers it, to
// its own node, when no traffic reaches the pods of the node that are being stopped.
const DrainPath = "/?drain"

// Annotations of pods.
const (
	// AnnotationTargets tells a pod that has a drain hook whether traffic may come to it.
	AnnotationTargets = "ingressdaemonsets.mumoshu.github.io/targets"
	// TargetsIn: traffic may come to the pod, as to a target of its own or as to the last pod
	// behind a target of its node.
	TargetsIn = "In"
	// TargetsOut: no traffic comes to the pod any more.
	TargetsOut = "Out"
	// AnnotationTold is when the annotation `targets` was last written, by the clock of who wrote it.
	// With it each such write changes the pod, so that an older one that arrives late is refused.
	AnnotationTold = "ingressdaemonsets.mumoshu.github.io/targets-told"
	// AnnotationDaemonPod "true" has the cluster autoscaler treat the pod as a DaemonSet's.
	AnnotationDaemonPod = "cluster-autoscaler.kubernetes.io/daemonset-pod"
)

// Annotations of an Attachment.
const (
	// AnnotationDetachment is the number of the detachment, where the node was taken out again
	// before it was put back. Webhooks are told it: the detachment and the attachment that ends
	// it have the same, and 1 where there is none.
	AnnotationDetachment = "ingressdaemonsets.mumoshu.github.io/detachment"
	// AnnotationGoneFor is for how long the Node has been gone, such as 3h0m0s, by the clocks of
	// those that led meanwhile.
	AnnotationGoneFor = "ingressdaemonsets.mumoshu.github.io/gone-for"
)

// Finalizer keeps an IngressDaemonSet until its nodes are out of the load balancer.
const Finalizer = "ingressdaemonsets.mumoshu.github.io/detach"

// HealthCheckAnswer is the JSON body that a health checker answers with, beside
// status 200 where Serving is true and 503 otherwise.
//
// A request with the headers "If-None-Match: <ETag of the last answer>" and
// "Prefer: wait=<seconds>" (RFC 7240) is answered when the verdict differs from
// that ETag, at the latest after the given time, 5 minutes at most. It is
// answered earlier by a health checker that ends or that many requests wait for:
// leave a second before asking again after an answer without news. The status is
// the same as without these headers, never 304.
//
// A request with "connections" in its query, such as GET /?connections, is answered
// at once and told of the connections to the ingress ports too. One of the node itself
// with "drain" in its query (DrainPath) is answered when pods may stop.
type HealthCheckAnswer struct {
	Serving bool   `json:"serving"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Mark repeats the value of the Deployment's health-check mark while it is set.
	Mark string `json:"mark,omitempty"`
	// AgeSeconds is how long this verdict (Serving, Reason and Mark) has held.
	AgeSeconds float64 `json:"ageSeconds"`
	// FailingSeconds is how long Serving has been false, whatever the reasons were; 0 while
	// it is true. Health checkers of v0.1.0 do not tell.
	FailingSeconds float64 `json:"failingSeconds,omitempty"`
	// APIAgeSeconds is how long ago the API server was last heard of; 0 while the watch is open.
	APIAgeSeconds float64 `json:"apiAgeSeconds"`
	// ReadyPods and WantedPods are what the verdict was made from.
	ReadyPods  int32  `json:"readyPods"`
	WantedPods int32  `json:"wantedPods"`
	Node       string `json:"node,omitempty"`
	// Asked tells of requests without HeaderClient and of connections that ended without a
	// request; nil before the first since the health checker started.
	Asked *Asked `json:"asked,omitempty"`
	// Quiet says whether none of them came for three of the longest interval between
	// two, and for at least 5 minutes and 30 seconds. A change of it answers those that wait.
	Quiet bool `json:"quiet,omitempty"`
	// Blind is why the API server could not be read for a minute or more, although it
	// should be; empty otherwise. A change of it from or to empty answers those that wait.
	Blind string `json:"blind,omitempty"`
	// Connections are those to each ingress port that the health checker watches,
	// where the request asks for them. A port that is not among them is not watched.
	Connections []PortConnections `json:"connections,omitempty"`
}

// Asked tells who asks a health-check port, of those that are none of this project's
// programs.
type Asked struct {
	// By is the address of who asked last, without the port.
	By string `json:"by"`
	// SecondsAgo is how long ago that was, IntervalSeconds the longest time from one
	// of them to the next, 0 before the second.
	SecondsAgo      float64 `json:"secondsAgo"`
	IntervalSeconds float64 `json:"intervalSeconds"`
}

// PortConnections tells whether traffic reaches one port of a node: of the TCP
// connections to it in the node's own network namespace, others than those of the
// node with itself. All that it says was true when they were last counted: about a
// second ago at most, or 20 where there are tens of thousands of connections.
type PortConnections struct {
	// Port is the local port.
	Port int32 `json:"port"`
	// Open is how many connections are open, half-open ones and those that no process
	// has accepted yet included.
	Open int32 `json:"open"`
	// QuietSeconds is for how long no new connection came, also none that was over
	// before the next count. It begins at 0 with the first question in a minute, and
	// again whenever connections may have come unseen.
	QuietSeconds float64 `json:"quietSeconds"`
	// CameSeconds is how long ago, at most, a new connection last came that was seen to come. It is
	// missing where none was since the first question in a minute.
	CameSeconds *float64 `json:"cameSeconds,omitempty"`
	// Unknown is why the connections are not known at present. Open and QuietSeconds
	// are 0 then and say nothing.
	Unknown string `json:"unknown,omitempty"`
}
