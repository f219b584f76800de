package api

import (
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// targetGroup is accepted.
const targetGroup = `
apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1
kind: TargetGroupAttachment
metadata:
  name: proxy
spec:
  targetGroup: {name: web}
  targetType: ip
  ingressDaemonSet: {name: proxy}
  port: http
`

const (
	oneSource = "say where the targets come from: set exactly one of ingressDaemonSet, podSelector and nodeSelector"
	oneGroup  = "set exactly one of arn, name and tags"
	notAPort  = "must be a number from 1 to 65535, or the name of a port"
)

// targetGroupRefusals are changes of targetGroup that the API server must refuse.
var targetGroupRefusals = []struct{ name, patch, field, want string }{
	{"no source", `ingressDaemonSet: null`, "spec", oneSource},
	{"two sources", `podSelector: {matchLabels: {app: proxy}}`, "spec", oneSource},
	{"no group", `targetGroup: {name: null}`, "spec.targetGroup", oneGroup},
	{"two groups", `targetGroup: {tags: {a: b}}`, "spec.targetGroup", oneGroup},
	{"no tags", `targetGroup: {name: null, tags: {}}`, "spec.targetGroup.tags", "should have at least 1 properties"},
	{"Service for addresses", `service: {name: proxy}`, "spec",
		"service is how nodes with pods take the traffic: it needs targetType instance, and pods selected by ingressDaemonSet or podSelector"},
	{"nodes for addresses", `ingressDaemonSet: null, nodeSelector: {}, port: 80`, "spec",
		"nodeSelector selects nodes, whose instances are targets: set targetType to instance, or select pods with podSelector"},
	{"name of a port of nodes", `ingressDaemonSet: null, nodeSelector: {}, targetType: instance`, "spec",
		"with nodeSelector no pod says what the name of a port means: set port to a number"},
	{"zone of instances", `targetType: instance, availabilityZone: all`, "spec",
		"availabilityZone is of addresses outside the group's network: it needs targetType ip"},
	{"unknown type", `targetType: lambda`, "spec.targetType", `Unsupported value: "lambda": supported values: "instance", "ip"`},
	{"unknown ownership", `ownership: All`, "spec.ownership", `Unsupported value: "All": supported values: "Registered", "Group"`},
	{"no port", `port: null`, "spec.port", "Required value"},
	{"port 0", `port: 0`, "spec.port", notAPort},
	{"port name", `port: HTTP`, "spec.port", notAPort},
	{"ARN of a load balancer", `targetGroup: {name: null, arn: "arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/net/web/73e2d6bc24d8a067"}`,
		"spec.targetGroup.arn", "must be the ARN of a target group, such as arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/web/73e2d6bc24d8a067"},
	{"name of a group", `targetGroup: {name: web_1}`, "spec.targetGroup.name", "must be the name of a target group: at most 32 letters, digits and hyphens"},
	{"ARN of a role with a blank", `assumeRole: {arn: "arn:aws:iam::123456789012:role/a b/ingress"}`, "spec.assumeRole.arn",
		"must be the ARN of a role, such as arn:aws:iam::123456789012:role/ingress"},
	{"ARN of a role of an odd name", `assumeRole: {arn: "arn:aws:iam::123456789012:role/a/50%"}`, "spec.assumeRole.arn",
		"must be the ARN of a role, such as arn:aws:iam::123456789012:role/ingress"},
	{"ARN of a user", `assumeRole: {arn: "arn:aws:iam::123456789012:user/ingress"}`, "spec.assumeRole.arn",
		"must be the ARN of a role, such as arn:aws:iam::123456789012:role/ingress"},
	{"settle time of hours", `detachFloorSeconds: 3601`, "spec.detachFloorSeconds", "should be less than or equal to 3600"},
}

func attemptTargetGroup(patch string) answer {
	kind := client.Resource(v1alpha1.GroupVersion.WithResource("targetgroupattachments")).Namespace("default")
	_, err := kind.Create(context.Background(), patched(targetGroup, spec(patch)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
	return answer{err: err}
}

func TestTargetGroupAttachments(t *testing.T) {
	for name, patch := range map[string]string{
		"of an IngressDaemonSet":    ``,
		"nodes of one":              `targetType: instance`,
		"nodes through a Service":   `targetType: instance, service: {name: proxy}`,
		"nodes of pods":             `ingressDaemonSet: null, podSelector: {}, targetType: instance`,
		"pods by labels":            `ingressDaemonSet: null, podSelector: {matchLabels: {app: proxy}}`,
		"nodes by labels":           `ingressDaemonSet: null, nodeSelector: {matchLabels: {a: b}}, targetType: instance, port: 30080`,
		"groups by tags":            `targetGroup: {name: null, tags: {a: b}}`,
		"a group of another region": `targetGroup: {name: null, arn: "arn:aws-cn:elasticloadbalancing:cn-north-1:123456789012:targetgroup/web/73e2d6bc24d8a067"}`,
		"another account":           `assumeRole: {arn: "arn:aws:iam::123456789012:role/team/ingress", externalID: a}`,
		"outside the network":       `availabilityZone: all`,
	} {
		if got := attemptTargetGroup(patch); got.err != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	var spoken []string
	for _, c := range targetGroupRefusals {
		var found bool
		causes := attemptTargetGroup(c.patch).causes()
		for _, cause := range causes {
			spoken = append(spoken, cause.Field+": "+cause.Message)
			found = found || cause.Field == c.field && strings.Contains(cause.Message, c.want)
		}
		if !found {
			t.Errorf("%s: %v, want %s: %s", c.name, causes, c.field, c.want)
		}
	}
	walk(schemaOf(t, targetGroupFile), "", func(path string, s apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if !seen(spoken, path+": ", rule.Message) {
				t.Errorf("no refusal shows the rule of %s: %s", path, rule.Message)
			}
		}
	})
}
