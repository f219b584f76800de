package api

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
)

// warned are the changes of base that are accepted, with all that the user is
// warned of.
var warned = []struct {
	name    string
	patches []string
	want    []string
}{
	{"both budgets", []string{rolling(`maxUnavailableNodes: 10%, maxDegradedNodes: 3`)},
		[]string{"maxDegradedNodes 3 is not used, because maxUnavailableNodes detaches nodes: remove one of the two"}},
	{"unavailable pods of a detached node", []string{rolling(`maxUnavailablePodsPerNode: 50%`)},
		[]string{"maxUnavailablePodsPerNode 50% is not used: all pods of a detached node are replaced at once, which is 100%"}},
	{"fields of detaching", []string{degraded(`detachTimeoutSeconds: 60, detachTimeoutPolicy: Proceed`)},
		[]string{"no node is detached, so these are not used: detachTimeoutSeconds, detachTimeoutPolicy; set maxUnavailableNodes to 1 or more to detach nodes"}},
	{"nothing detaches", []string{spec(`healthCheckNodePorts: []`)},
		[]string{"nothing takes a node out of the load balancer before its pods are replaced: set healthCheckNodePorts, serviceName or annotateNodeToDetach"}},
	{"nobody confirms", []string{rolling(`annotateNodeToDetach: {key: a, gracePeriodSeconds: 20}`)},
		[]string{"without waitForDetachmentByAnnotatedTimestamp no detacher confirms that a node is detached; 20 seconds after it was annotated (annotateNodeToDetach.gracePeriodSeconds) its pods are replaced"}},
	{"no minimum", []string{rolling(`minServingNodes: 0`)},
		[]string{"minServingNodes 0 permits a rollout to take out the last serving node"}},
	{"minimum of nothing", []string{rolling(`minServingNodes: 0%`)},
		[]string{"minServingNodes 0 permits a rollout to take out the last serving node"}},
	{"no pods", []string{spec(`podsPerNode: 0`)},
		[]string{"podsPerNode 0 leaves every node without pods, so all health checks fail: set spec.paused to stop a rollout instead"}},
	{"the only pod", []string{spec(`podsPerNode: 1`), degraded(`maxUnavailablePodsPerNode: 1`)},
		[]string{"maxUnavailablePodsPerNode 1 of podsPerNode 1 leaves a node without a pod while it still gets traffic: lower it, or detach nodes with maxUnavailableNodes"}},
	{"all pods", []string{spec(`podsPerNode: 3`), degraded(`maxUnavaiablePodsPerNode: 100%`)},
		[]string{"maxUnavailablePodsPerNode 100% of podsPerNode 3 leaves a node without a pod while it still gets traffic: lower it, or detach nodes with maxUnavailableNodes"}},
	{"the only pod, rounded", []string{spec(`podsPerNode: null`), degraded(`maxSurgedPodsPerNode: 0, maxUnavailablePodsPerNode: 10%`)},
		[]string{"maxUnavailablePodsPerNode 10% of podsPerNode 1 leaves a node without a pod while it still gets traffic: lower it, or detach nodes with maxUnavailableNodes"}},
	{"slow to stop", []string{pod(`terminationGracePeriodSeconds: 601`)},
		[]string{"pods may take 601 seconds to stop (terminationGracePeriodSeconds), after which progressDeadlineSeconds 600 is over: raise it"}},
	{"hurried", []string{spec(`progressDeadlineSeconds: 20`)},
		[]string{"pods may take 30 seconds to stop (terminationGracePeriodSeconds), after which progressDeadlineSeconds 20 is over: raise it"}},
	{"drain hook with too little time", []string{spec(`drainHook: {stopSeconds: 20}`)},
		[]string{"drainHook can hold a pod for 10 seconds (terminationGracePeriodSeconds less drainHook.stopSeconds), but the load balancer needs 10 to notice (annotateDeploymentToDetach.gracePeriodSeconds): raise terminationGracePeriodSeconds"}},
	{"host-network ports", []string{pod(`hostNetwork: true`), ports(`{containerPort: 80}`)},
		[]string{"the ports of host-network pods are not declared to the API server, so that pods can share them: Services and NetworkPolicies must use their numbers, not their names, and the pods must listen with SO_REUSEPORT"}},
	{"host-network ports of one pod", []string{spec(`podsPerNode: 1`), pod(`hostNetwork: true`), ports(`{containerPort: 80}`)},
		[]string{"the ports of host-network pods are not declared to the API server, so that pods can share them: Services and NetworkPolicies must use their numbers, not their names"}},
	{"the seed's budgets", []string{rolling(`maxUnavailableNodes: 2, maxDegradedNodes: 3, maxUnavaiablePodsPerNode: 3`)},
		[]string{
			"maxDegradedNodes 3 is not used, because maxUnavailableNodes detaches nodes: remove one of the two",
			"maxUnavailablePodsPerNode 3 is not used: all pods of a detached node are replaced at once, which is 100%",
		}},
}

// warnedAnswers are the answers to warned, in their order.
var warnedAnswers = sync.OnceValue(func() []answer {
	var answers []answer
	for _, c := range warned {
		answers = append(answers, attempt(context.Background(), changed(c.patches...)))
	}
	return answers
})

func TestWarnings(t *testing.T) {
	for i, c := range warned {
		t.Run(c.name, func(t *testing.T) {
			got := warnedAnswers()[i]
			if got.err != nil {
				t.Fatal(got.err)
			}
			if want := delivered(c.want...); !slices.Equal(got.warnings, want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got.warnings, "\n     "), strings.Join(want, "\n     "))
			}
		})
	}
}

// delivered are warnings of the policy as the API server puts them.
func delivered(texts ...string) []string {
	var whole []string
	for _, text := range texts {
		whole = append(whole, "Validation failed for ValidatingAdmissionPolicy 'warn.ingressdaemonsets.mumoshu.github.io'"+
			" with binding 'warn.ingressdaemonsets.mumoshu.github.io': "+text)
	}
	slices.Sort(whole)
	return whole
}
