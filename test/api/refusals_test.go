package api

import (
	"context"
	"strings"
	"sync"
	"testing"
)

const (
	rollingUpdate = "spec.updateStrategy.rollingUpdate"
	notABudget    = "must be 0 or more, or a percentage from 0% to 100%"
	notAKey       = "must be an annotation key: an optional DNS prefix and a slash, then at most 63 letters, digits, '-', '_' or '.'"
)

// refusals are the changes of base that the API server must refuse, each for
// one reason, with what the user reads.
var refusals = []struct {
	name    string
	patches []string
	// field that the answer names, where it is the CRD's, and what it says.
	field, want string
}{
	// Bounds of single fields.
	{"long name", []string{`{metadata: {name: ` + strings.Repeat("a", 53) + `}}`},
		"<nil>", "metadata.name must be at most 52 characters, because DaemonSets and pods are named after it"},
	{"negative pods", []string{spec(`podsPerNode: -1`)},
		"spec.podsPerNode", "should be greater than or equal to 0"},
	{"too many pods", []string{spec(`podsPerNode: 101`)},
		"spec.podsPerNode", "should be less than or equal to 100"},
	{"too many replicas", []string{spec(`podsPerNode: null, replicas: 101`)},
		"spec.replicas", "should be less than or equal to 100"},
	{"privileged health-check port", []string{spec(`healthCheckNodePorts: [80]`)},
		"spec.healthCheckNodePorts[0]", "should be greater than or equal to 1024"},
	{"health-check port out of range", []string{spec(`healthCheckNodePorts: [65536]`)},
		"spec.healthCheckNodePorts[0]", "should be less than or equal to 65535"},
	{"health-check port twice", []string{spec(`healthCheckNodePorts: [10080, 10080]`)},
		"spec.healthCheckNodePorts[1]", "Duplicate value: 10080"},
	{"unknown placement", []string{spec(`podPlacement: Anywhere`)},
		"spec.podPlacement", `Unsupported value: "Anywhere": supported values: "NodeName", "Scheduler"`},
	{"unknown time of failing", []string{rolling(`failHealthChecks: Never`)},
		rollingUpdate + ".failHealthChecks", `Unsupported value: "Never": supported values: "First", "AfterDetachment"`},
	{"no time to stop", []string{spec(`drainHook: {stopSeconds: 0}`)},
		"spec.drainHook.stopSeconds", "should be greater than or equal to 1"},
	{"unknown timeout policy", []string{rolling(`detachTimeoutPolicy: Retry`)},
		rollingUpdate + ".detachTimeoutPolicy", `Unsupported value: "Retry": supported values: "Abort", "Proceed"`},
	{"unknown failure policy", []string{rolling(`failurePolicy: Retry`)},
		rollingUpdate + ".failurePolicy", `Unsupported value: "Retry": supported values: "Pause", "Rollback"`},
	{"check of nothing", []string{rolling(`analysis: [{name: a}]`)},
		rollingUpdate + ".analysis[0]", "set exactly one of http, prometheus and webhook"},
	{"check of two things", []string{rolling(`analysis: [{name: a, http: {port: 80}, webhook: {url: "http://a"}}]`)},
		rollingUpdate + ".analysis[0]", "set exactly one of http, prometheus and webhook"},
	{"check that cannot fail", []string{rolling(`analysis: [{name: a, http: {port: 80}, count: 2, failureLimit: 2}]`)},
		rollingUpdate + ".analysis[0]", "failureLimit must be less than count, or the check could never fail"},
	{"check twice", []string{rolling(`analysis: [{name: a, http: {port: 80}}, {name: a, http: {port: 81}}]`)},
		rollingUpdate + ".analysis[1]", "Duplicate value"},
	{"path without a slash", []string{rolling(`analysis: [{name: a, http: {port: 80, path: "healthz"}}]`)},
		rollingUpdate + ".analysis[0].http.path", "must begin with /"},
	{"address of Prometheus", []string{rolling(`analysis: [{name: a, prometheus: {address: "prometheus:9090", query: up, success: "> 0"}}]`)},
		rollingUpdate + ".analysis[0].prometheus.address", "must be a URL that begins with http:// or https://"},
	{"Prometheus by nothing", []string{rolling(`analysis: [{name: a, prometheus: {query: up, success: "> 0"}}]`)},
		rollingUpdate + ".analysis[0].prometheus", "set exactly one of address and provider"},
	{"Prometheus by two", []string{rolling(`analysis: [{name: a, prometheus: {address: "http://prometheus:9090", provider: mimir, query: up, success: "> 0"}}]`)},
		rollingUpdate + ".analysis[0].prometheus", "set exactly one of address and provider"},
	{"condition of Prometheus", []string{rolling(`analysis: [{name: a, prometheus: {address: "http://prometheus:9090", query: up, success: "result > 0"}}]`)},
		rollingUpdate + ".analysis[0].prometheus.success", "must be a comparison (<, <=, >, >=, ==, !=) and a number, such as '< 0.01', or a CEL expression of value, such as 'value < 0.01 || value > 100'"},
	{"webhook", []string{rolling(`analysis: [{name: a, webhook: {url: "ftp://a"}}]`)},
		rollingUpdate + ".analysis[0].webhook.url", "must be a URL that begins with http:// or https://"},
	{"no time to detach", []string{rolling(`detachTimeoutSeconds: 0`)},
		rollingUpdate + ".detachTimeoutSeconds", "should be greater than or equal to 1"},
	{"grace of days", []string{rolling(`annotateDeploymentToDetach: {gracePeriodSeconds: 86401}`)},
		rollingUpdate + ".annotateDeploymentToDetach.gracePeriodSeconds", "should be less than or equal to 86400"},
	{"minServingNodes above all", []string{rolling(`minServingNodes: 101%`)},
		rollingUpdate + ".minServingNodes", notABudget},
	{"negative minReadySeconds", []string{spec(`minReadySeconds: -1`)},
		"spec.minReadySeconds", "should be greater than or equal to 0"},
	{"no template", []string{spec(`template: null`)},
		"spec.template", "Required value"},
	{"unknown field", []string{spec(`podsPerNodes: 2`)},
		"", `strict decoding error: unknown field "spec.podsPerNodes"`},
	{"unknown field in the template", []string{pod(`hostNetworks: true`)},
		"", `strict decoding error: unknown field "spec.template.spec.hostNetworks"`},
	{"OnDelete", []string{spec(`updateStrategy: {type: OnDelete}`)},
		"spec.updateStrategy.type", "only RollingUpdate is supported: instead of OnDelete, set rollingUpdate.partition to 100% and lower it step by step, or spec.paused to true"},
	{"unavailable nodes", []string{rolling(`maxUnavailableNodes: 101%`)},
		rollingUpdate + ".maxUnavailableNodes", notABudget},
	{"unavailable nodes without percent", []string{rolling(`maxUnavailableNodes: "5"`)},
		rollingUpdate + ".maxUnavailableNodes", notABudget},
	{"degraded nodes", []string{degraded(`maxDegradedNodes: -1`)},
		rollingUpdate + ".maxDegradedNodes", notABudget},
	{"unavailable pods", []string{degraded(`maxUnavailablePodsPerNode: half`)},
		rollingUpdate + ".maxUnavailablePodsPerNode", notABudget},
	{"unavaiable pods", []string{degraded(`maxUnavaiablePodsPerNode: -1%`)},
		rollingUpdate + ".maxUnavaiablePodsPerNode", notABudget},
	{"surged pods", []string{rolling(`maxSurgedPodsPerNode: 200%`)},
		rollingUpdate + ".maxSurgedPodsPerNode", notABudget},
	{"partition", []string{rolling(`partition: -1`)},
		rollingUpdate + ".partition", notABudget},
	{"topology key", []string{rolling(`order: {topologyKey: a/b/c}`)},
		rollingUpdate + ".order.topologyKey", "must be a label key, such as topology.kubernetes.io/zone"},
	{"mark key", []string{rolling(`annotateDeploymentToDetach: {key: "to be updated"}`)},
		rollingUpdate + ".annotateDeploymentToDetach.key", notAKey},
	{"mark key of ours", []string{rolling(`annotateDeploymentToDetach: {key: ingressdaemonsets.mumoshu.github.io/hold}`)},
		rollingUpdate + ".annotateDeploymentToDetach.key", "is reserved for Kubernetes or for this controller's own annotations: use a key of your own, or leave it out"},
	{"mark key of a Deployment", []string{rolling(`annotateDeploymentToDetach: {key: deployment.kubernetes.io/revision}`)},
		rollingUpdate + ".annotateDeploymentToDetach.key", "is reserved for Kubernetes or for this controller's own annotations: use a key of your own, or leave it out"},
	{"node key", []string{rolling(`annotateNodeToDetach: {key: -a}`)},
		rollingUpdate + ".annotateNodeToDetach.key", notAKey},
	{"node key of ours", []string{rolling(`annotateNodeToDetach: {key: detach.ingressdaemonsets.mumoshu.github.io/a}`)},
		rollingUpdate + ".annotateNodeToDetach.key", "is reserved for this controller's own annotations: use the key that your detacher looks for"},
	{"no node key", []string{rolling(`annotateNodeToDetach: {value: "true"}`)},
		rollingUpdate + ".annotateNodeToDetach.key", "Required value"},
	{"timestamp key", []string{rolling(`annotateNodeToDetach: {key: a}, waitForDetachmentByAnnotatedTimestamp: {key: A/b}`)},
		rollingUpdate + ".waitForDetachmentByAnnotatedTimestamp.key", notAKey},
	{"timestamp format", []string{rolling(`annotateNodeToDetach: {key: a}, waitForDetachmentByAnnotatedTimestamp: {key: b, format: Unix}`)},
		rollingUpdate + ".waitForDetachmentByAnnotatedTimestamp.format", "only RFC3339 is supported, such as 2006-01-02T15:04:05Z"},

	// Fields that contradict each other.
	{"two numbers of pods", []string{spec(`podsPerNode: 2, replicas: 3`)},
		"spec", "podsPerNode and replicas are two names of one field: set only one of them, or both to the same value"},
	{"two numbers of unavailable pods", []string{degraded(`maxUnavailablePodsPerNode: 1, maxUnavaiablePodsPerNode: 50%`)},
		rollingUpdate, "maxUnavailablePodsPerNode and maxUnavaiablePodsPerNode are two names of one field: set only the first"},
	{"mark without a budget", []string{degraded(`annotateDeploymentToDetach: {}`)},
		rollingUpdate, "annotateDeploymentToDetach and annotateNodeToDetach detach nodes, which needs a budget: set maxUnavailableNodes to 1 or more, or to a percentage"},
	{"node annotation with a budget of 0%", []string{rolling(`maxUnavailableNodes: 0%, annotateNodeToDetach: {key: a}`)},
		rollingUpdate, "annotateDeploymentToDetach and annotateNodeToDetach detach nodes, which needs a budget: set maxUnavailableNodes to 1 or more, or to a percentage"},
	{"mark without health checks", []string{spec(`healthCheckNodePorts: null`), rolling(`annotateDeploymentToDetach: {}`)},
		"spec", "annotateDeploymentToDetach makes health checks fail, so somebody must answer them: set healthCheckNodePorts, or serviceName"},
	{"timestamp without node annotation", []string{rolling(`waitForDetachmentByAnnotatedTimestamp: {key: a}`)},
		rollingUpdate, "waitForDetachmentByAnnotatedTimestamp waits for the answer to annotateNodeToDetach: set annotateNodeToDetach too"},
	{"question and answer in one annotation", []string{rolling(`annotateNodeToDetach: {key: a}, waitForDetachmentByAnnotatedTimestamp: {key: a}`)},
		rollingUpdate, "annotateNodeToDetach.key and waitForDetachmentByAnnotatedTimestamp.key must differ: one asks, the other is the answer"},
	{"health checks that fail last without a detacher", []string{rolling(`annotateNodeToDetach: {key: a}, failHealthChecks: AfterDetachment`)},
		rollingUpdate, "failHealthChecks AfterDetachment waits for a detacher's answer: set annotateNodeToDetach and waitForDetachmentByAnnotatedTimestamp, or leave failHealthChecks out"},
	{"health checks of kube-proxy that fail last", []string{spec(`serviceName: proxy`), rolling(`annotateNodeToDetach: {key: a}, waitForDetachmentByAnnotatedTimestamp: {key: b}, failHealthChecks: AfterDetachment`)},
		"spec", "failHealthChecks AfterDetachment is for healthCheckNodePorts: kube-proxy, which answers for serviceName, fails as soon as a node is marked"},
	{"drain hook without a health checker", []string{spec(`healthCheckNodePorts: null, drainHook: {}`)},
		"spec", "drainHook asks the node's health checker, so there must be one: set healthCheckNodePorts"},
	{"no budget of nodes", []string{degraded(`maxDegradedNodes: 0`)},
		rollingUpdate, "maxUnavailableNodes and maxDegradedNodes are both 0, so no node could ever be updated: set one of them to 1 or more, or spec.paused to stop the rollout"},
	{"no budget of pods", []string{degraded(`maxSurgedPodsPerNode: 0`)},
		rollingUpdate, "maxSurgedPodsPerNode and maxUnavailablePodsPerNode are both 0, so no pod of a serving node could ever be replaced: set one of them to 1 or more, or detach nodes with maxUnavailableNodes"},
	{"no budget of pods in per cent", []string{degraded(`maxSurgedPodsPerNode: 0%, maxUnavaiablePodsPerNode: 0%`)},
		rollingUpdate, "maxSurgedPodsPerNode and maxUnavailablePodsPerNode are both 0, so no pod of a serving node could ever be replaced: set one of them to 1 or more, or detach nodes with maxUnavailableNodes"},

	// The policy, which walks the template.
	{"no spec in the template", []string{template(`spec: null`)},
		"", "spec.template.spec.containers is empty: name at least one container"},
	{"no containers", []string{pod(`containers: []`)},
		"", "spec.template.spec.containers is empty: name at least one container"},
	{"restart policy", []string{pod(`restartPolicy: OnFailure`)},
		"", "spec.template.spec.restartPolicy is OnFailure, but these pods run for ever: set Always, or leave it out"},
	{"active deadline", []string{pod(`activeDeadlineSeconds: 60`)},
		"", "spec.template.spec.activeDeadlineSeconds would end every pod while it serves: leave it out"},
	{"node name", []string{pod(`nodeName: a`)},
		"", "spec.template.spec.nodeName is set by the controller, once for each node: leave it out, and choose nodes with spec.nodeSelector"},
	{"scheduling gate", []string{pod(`schedulingGates: [{name: example.com/wait}]`)},
		"", "spec.template.spec.schedulingGates hold pods back from the scheduler, which podPlacement NodeName does not use: leave them out, or set podPlacement to Scheduler"},
	{"reserved labels", []string{template(`metadata: {labels: {ingress-daemon-for-node: a}}`), spec(`selector: {matchLabels: {ingressdaemonsets.mumoshu.github.io/name: a}}`)},
		"", "the controller writes these labels itself: remove ingress-daemon-for-node, ingressdaemonsets.mumoshu.github.io/name from the labels of spec.template and from spec.selector.matchLabels"},
	{"contradicting labels", []string{spec(`selector: {matchLabels: {app: other, tier: edge}}`)},
		"", "spec.selector.matchLabels are added to the pods, but the labels of spec.template have other values for app: make them equal, or remove them from one of the two"},
	{"no label key", []string{spec(`nodeSelector: {a b: c}`)},
		"", "no node or pod can have the label a b=c: correct it in spec.selector.matchLabels, spec.nodeSelector or canaryNodeSelector"},
	{"no label value", []string{rolling(`canaryNodeSelector: {canary: "yes, please"}`)},
		"", "no node or pod can have the label canary=yes, please: correct it in spec.selector.matchLabels, spec.nodeSelector or canaryNodeSelector"},
	{"drain hook beside another", []string{spec(`drainHook: {}`), pod(`containers: [{name: proxy, image: proxy, lifecycle: {preStop: {sleep: {seconds: 5}}}}, {name: other, image: other}]`)},
		"", "drainHook adds a preStop hook, but these containers have one: proxy; remove theirs, or remove drainHook and have them request /?drain of the health checker on the node first"},
	{"drain hook without time", []string{spec(`drainHook: {stopSeconds: 30}`)},
		"", "drainHook leaves 30 seconds of terminationGracePeriodSeconds 30 to the containers (stopSeconds), so that nothing is left for the hook: raise terminationGracePeriodSeconds"},
	{"pods take the health-check port", []string{pod(`hostNetwork: true`), ports(`{containerPort: 10080}`)},
		"", "the pods take the ports 10080 of the node, on which the health checker must listen: choose other healthCheckNodePorts"},
	{"a hostPort takes the health-check port", []string{spec(`podsPerNode: 1`), ports(`{containerPort: 80, hostPort: 10080}`)},
		"", "the pods take the ports 10080 of the node, on which the health checker must listen: choose other healthCheckNodePorts"},
	{"hostPort of two pods", []string{ports(`{containerPort: 80, hostPort: 80}`)},
		"", "a hostPort without hostNetwork belongs to one pod of a node at a time, which needs podsPerNode 1 (it is 2), maxSurgedPodsPerNode 0 (it is 0) and maxUnavailableNodes 1 or more (it is 1): change these, or set hostNetwork"},
	{"hostPort with surge", []string{spec(`podsPerNode: 1`), rolling(`maxSurgedPodsPerNode: 10%`), ports(`{containerPort: 80, hostPort: 80}`)},
		"", "which needs podsPerNode 1 (it is 1), maxSurgedPodsPerNode 0 (it is 10%) and maxUnavailableNodes 1 or more (it is 1):"},
	{"hostPort without detaching", []string{spec(`podsPerNode: 1`), degraded(`maxSurgedPodsPerNode: 0, maxUnavailablePodsPerNode: 1`), ports(`{containerPort: 80, hostPort: 80}`)},
		"", "which needs podsPerNode 1 (it is 1), maxSurgedPodsPerNode 0 (it is 0) and maxUnavailableNodes 1 or more (it is 0):"},
	{"hostPort of a sidecar", []string{pod(`initContainers: [{name: sidecar, image: proxy, restartPolicy: Always, ports: [{containerPort: 80, hostPort: 80}]}]`)},
		"", "a hostPort without hostNetwork belongs to one pod of a node at a time"},
	{"scheduled host-network pods share a port", []string{spec(`podPlacement: Scheduler`), pod(`hostNetwork: true`), ports(`{containerPort: 80}`)},
		"", "the scheduler puts no second pod with the same host-network ports on a node: declare no ports, or set podPlacement to NodeName, or podsPerNode to 1 (it is 2) and maxSurgedPodsPerNode to 0 (it is 0)"},
	{"scheduled host-network pod surges", []string{spec(`podPlacement: Scheduler, podsPerNode: 1`), degraded(``), pod(`hostNetwork: true`), ports(`{containerPort: 80}`)},
		"", "podsPerNode to 1 (it is 1) and maxSurgedPodsPerNode to 0 (it is 1)"},
}

// refused are the answers to refusals, in their order.
var refused = sync.OnceValue(func() []answer {
	var answers []answer
	for _, c := range refusals {
		answers = append(answers, attempt(context.Background(), changed(c.patches...)))
	}
	return answers
})

func TestRefusals(t *testing.T) {
	for i, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			causes := refused()[i].causes()
			if len(causes) != 1 {
				t.Fatalf("want one reason, got %v", causes)
			}
			if got := causes[0]; got.Field != c.field || !strings.Contains(got.Message, c.want) {
				t.Errorf("got  %s: %s\nwant %s: %s", got.Field, got.Message, c.field, c.want)
			}
		})
	}
}

// TestAccepted shows the near side of the refusals: no error and no warning.
func TestAccepted(t *testing.T) {
	for name, patches := range map[string][]string{
		"base":                        {},
		"longest name":                {`{metadata: {name: ` + strings.Repeat("a", 52) + `}}`},
		"both names, one value":       {spec(`replicas: 2`)},
		"drain hook":                  {spec(`drainHook: {stopSeconds: 19}`)},
		"health checks fail last":     {rolling(`annotateNodeToDetach: {key: a}, waitForDetachmentByAnnotatedTimestamp: {key: b}, failHealthChecks: AfterDetachment`)},
		"percentages":                 {rolling(`maxUnavailableNodes: 100%, partition: 0%, minServingNodes: 1%`)},
		"no strategy":                 {spec(`updateStrategy: null`)},
		"mark answered by kube-proxy": {spec(`healthCheckNodePorts: null, serviceName: proxy`), rolling(`annotateDeploymentToDetach: {}`)},
		"the README's mark":           {rolling(`annotateDeploymentToDetach: {key: ingressdaemonsets.mumoshu.github.com/to-be-updated}`)},
		"only a detacher": {spec(`healthCheckNodePorts: null`),
			rolling(`annotateNodeToDetach: {key: a.b/c}, waitForDetachmentByAnnotatedTimestamp: {key: a.b/d, format: RFC3339}`)},
		"replaced in place":              {degraded(`maxSurgedPodsPerNode: 0, maxUnavailablePodsPerNode: 1`)},
		"hostPort of one pod":            {spec(`podsPerNode: 1`), ports(`{containerPort: 80, hostPort: 80}`)},
		"ports of the pod network":       {ports(`{containerPort: 80}, {containerPort: 10080}`)},
		"UDP beside the health checker":  {spec(`podsPerNode: 1`), ports(`{containerPort: 53, hostPort: 10080, protocol: UDP}`)},
		"one scheduled host-network pod": {spec(`podPlacement: Scheduler, podsPerNode: 1`), pod(`hostNetwork: true`), ports(`{containerPort: 80}`)},
		"two undeclared ones":            {spec(`podPlacement: Scheduler`), pod(`hostNetwork: true`)},
		"gates of the scheduler":         {spec(`podPlacement: Scheduler`), pod(`schedulingGates: [{name: example.com/wait}]`)},
		"selector beside the template":   {spec(`selector: {matchLabels: {app: proxy, tier: edge}}, nodeSelector: {example.com/edge: ""}`)},
	} {
		t.Run(name, func(t *testing.T) {
			got := attempt(t.Context(), changed(patches...))
			if got.err != nil || len(got.warnings) > 0 {
				t.Errorf("not accepted: %v", got)
			}
		})
	}
}
