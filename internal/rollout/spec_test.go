package rollout

import (
	"fmt"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// start is when a State of the tests was observed.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// plainSpec has two pods on a node, and health checks; nodes are not detached.
func plainSpec() v1alpha1.IngressDaemonSetSpec {
	return v1alpha1.IngressDaemonSetSpec{
		PodsPerNode: new(int32(2)), HealthCheckNodePorts: []int32{10080},
		UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{}},
	}
}

// byHealthCheck has nodes detached by their health checks.
func byHealthCheck(s *v1alpha1.IngressDaemonSetSpec) {
	s.UpdateStrategy.RollingUpdate.MaxUnavailableNodes = number(1)
}

// byAnnotation has nodes detached by a detacher that says when it has done so.
func byAnnotation(s *v1alpha1.IngressDaemonSetSpec) {
	u := s.UpdateStrategy.RollingUpdate
	u.MaxUnavailableNodes = number(1)
	u.AnnotateNodeToDetach = &v1alpha1.AnnotateNodeToDetach{Key: "node-detacher.variant.run/detached", GracePeriodSeconds: new(int32(2))}
	u.WaitForDetachmentByAnnotatedTimestamp = &v1alpha1.WaitForDetachmentByAnnotatedTimestamp{
		Key: "node-detacher.variant.run/detachment-timestamp", GracePeriodSeconds: new(int32(5)),
	}
}

// byBoth has nodes detached by their health checks, then by a detacher.
func byBoth(s *v1alpha1.IngressDaemonSetSpec) {
	byAnnotation(s)
	s.UpdateStrategy.RollingUpdate.AnnotateDeploymentToDetach = &v1alpha1.AnnotateDeploymentToDetach{}
}

// analysed has each wave measured twice.
func analysed(s *v1alpha1.IngressDaemonSetSpec) {
	byHealthCheck(s)
	s.UpdateStrategy.RollingUpdate.Analysis = []v1alpha1.AnalysisCheck{
		{Name: "errors", IntervalSeconds: new(int32(5)), Count: new(int32(2))},
	}
}

func percent(n int) *intstr.IntOrString { return new(intstr.FromString(fmt.Sprintf("%d%%", n))) }
func number(n int) *intstr.IntOrString  { return new(intstr.FromInt32(int32(n))) }
