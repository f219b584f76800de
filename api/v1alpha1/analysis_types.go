package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnalysisCheck is measured count times, interval seconds apart, once every node
// of a wave serves again. It passes when that is done and at most failureLimit of
// the measurements failed.
//
// +kubebuilder:validation:XValidation:rule="[has(self.http), has(self.prometheus), has(self.webhook)].filter(x, x).size() == 1",message="set exactly one of http, prometheus and webhook"
// +kubebuilder:validation:XValidation:rule="self.?failureLimit.orValue(0) < self.?count.orValue(1)",message="failureLimit must be less than count, or the check could never fail"
type AnalysisCheck struct {
	// name of the check.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// http asks every node of the wave.
	//
	// +optional
	HTTP *HTTPCheck `json:"http,omitempty"`
	// prometheus asks a Prometheus server.
	//
	// +optional
	Prometheus *PrometheusCheck `json:"prometheus,omitempty"`
	// webhook asks whoever answers a URL.
	//
	// +optional
	Webhook *WebhookCheck `json:"webhook,omitempty"`
	// intervalSeconds is how long, in seconds, after one measurement the next is
	// made. The first is made one interval after the wave serves. Defaults to 10.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
	// count is how many measurements are made. Defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Count *int32 `json:"count,omitempty"`
	// failureLimit is how many measurements may fail. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailureLimit *int32 `json:"failureLimit,omitempty"`
	// timeoutSeconds is how long, in seconds, a measurement may take; longer is a
	// failure. Defaults to 5.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// duringWave measures from the beginning of a wave too. Failures then count as
	// they do afterwards; passed measurements do not.
	//
	// +optional
	DuringWave bool `json:"duringWave,omitempty"`
}

// HTTPCheck is a request to a port of each node, as a client behind the load
// balancer would send it. It passes when every node of the wave gives an expected
// answer. Redirects are not followed.
type HTTPCheck struct {
	// port of the node: one that the template declares (a port of the container on the
	// host network, otherwise its hostPort), one of healthCheckNodePorts, a node port of a
	// Service in the namespace, or one that the controller's --analysis-hosts permits.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// path to ask for. Defaults to /.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must begin with /"
	Path string `json:"path,omitempty"`
	// scheme is HTTP, the default, or HTTPS, whose certificate is not verified.
	//
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme string `json:"scheme,omitempty"`
	// host is the Host header, and with HTTPS the server name. Defaults to the
	// node's address.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// statuses are the expected ones. By default every status from 200 to 399 is.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=599
	Statuses []int32 `json:"statuses,omitempty"`
}

// PrometheusCheck is a query of which every value must fulfil a condition.
//
// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.provider)",message="set exactly one of address and provider"
type PrometheusCheck struct {
	// address of the server, such as http://prometheus:9090: that of a Service in the
	// namespace of the IngressDaemonSet, or one that the controller's --analysis-hosts
	// permits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/]')",message="must be a URL that begins with http:// or https://"
	Address string `json:"address,omitempty"`
	// provider is the name of a server in the file that the controller's
	// --analysis-providers names.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`
	// query is PromQL whose result is a vector or a scalar. In it $(NODES) stands
	// for a regular expression of the names of the wave's nodes, $(ADDRESSES) for one
	// of their addresses, $(REVISION) for the revision, $(NAMESPACE) and $(NAME) for
	// the IngressDaemonSet's. With these it is at most 256 KiB long.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
	// success is the condition on each value: a comparison and a number, such as
	// "< 0.01", or a CEL expression of value, such as "value < 0.01 || value > 100".
	//
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(<|<=|>|>=|==|!=) *-?[0-9]+([.][0-9]+)?(e-?[0-9]+)?$|(^|[^A-Za-z0-9_.])value([^A-Za-z0-9_]|$)')",message="must be a comparison (<, <=, >, >=, ==, !=) and a number, such as '< 0.01', or a CEL expression of value, such as 'value < 0.01 || value > 100'"
	Success string `json:"success"`
	// empty is what a result without a value is: Fail, the default, or Pass.
	//
	// +optional
	// +kubebuilder:validation:Enum=Fail;Pass
	Empty string `json:"empty,omitempty"`
}

// WebhookCheck posts the namespace, the name, the revision and the nodes of the
// wave as JSON. A status from 200 to 299 passes; what else is answered is reported.
type WebhookCheck struct {
	// url to post to: that of a Service in the namespace of the IngressDaemonSet, or one
	// that the controller's --analysis-hosts permits.
	//
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/]')",message="must be a URL that begins with http:// or https://"
	URL string `json:"url"`
}

// FailurePolicy is what follows a failed analysis or an overrun deadline.
//
// +kubebuilder:validation:Enum=Pause;Rollback
type FailurePolicy string

const (
	// PauseOnFailure starts no further node until the spec changes.
	PauseOnFailure FailurePolicy = "Pause"
	// RollBackOnFailure takes the nodes back to status.currentRevision, until the
	// template changes.
	RollBackOnFailure FailurePolicy = "Rollback"
)

// AnalysisStatus is the analysis of one wave.
type AnalysisStatus struct {
	// revision that is judged.
	Revision string `json:"revision"`
	// nodes of the wave.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20000
	Nodes []string `json:"nodes,omitempty"`
	// began is when the wave began, or when the spec was changed after a failure.
	Began metav1.MicroTime `json:"began"`
	// phase is where the analysis stands.
	Phase AnalysisPhase `json:"phase"`
	// since is when the phase began.
	Since metav1.MicroTime `json:"since"`
	// generation of the spec by which it failed.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// checks are what was measured.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Checks []AnalysisCheckStatus `json:"checks,omitempty"`
}

// AnalysisPhase is where the analysis of a wave stands.
//
// +kubebuilder:validation:Enum=Wave;Measuring;Passed;Failed
type AnalysisPhase string

const (
	// AnalysisOfWave: the wave is under way.
	AnalysisOfWave AnalysisPhase = "Wave"
	// AnalysisMeasuring: the wave serves and is measured.
	AnalysisMeasuring AnalysisPhase = "Measuring"
	// AnalysisPassed: the next wave may begin.
	AnalysisPassed AnalysisPhase = "Passed"
	// AnalysisFailed: a check failed.
	AnalysisFailed AnalysisPhase = "Failed"
)

// AnalysisCheckStatus is what was measured of a check.
type AnalysisCheckStatus struct {
	// name of the check.
	Name string `json:"name"`
	// passed and failed count the measurements.
	Passed int32 `json:"passed"`
	Failed int32 `json:"failed"`
	// message of the last measurement that failed.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// at is when the last measurement ended.
	//
	// +optional
	At *metav1.MicroTime `json:"at,omitempty"`
}

// RejectedRevision is a revision that nodes are taken back from.
type RejectedRevision struct {
	// revision that was rejected.
	Revision string `json:"revision"`
	// message says why.
	Message string `json:"message"`
	// at is when it was rejected.
	At metav1.Time `json:"at"`
}
