// Package conversion makes an IngressDaemonSet of a DaemonSet or a Deployment that runs, with a note on
// each field that is not what it was: because it means something else here, or is refused.
// daemonset.go and deployment.go say what becomes of what only one of them has, template.go what becomes
// of the pods, text.go writes it all as YAML with the notes as comments.
package conversion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Note is what is to be known of a field before the object is applied.
type Note struct {
	// Field is its path, with the elements of lists by number, such as
	// spec.template.spec.containers.0.lifecycle. What was left out is noted where it would stand.
	Field, Text string
}

// Converted is an IngressDaemonSet that was made of something else.
type Converted struct {
	Set *v1alpha1.IngressDaemonSet
	// From is what it was made of, as kubectl names it.
	From string
	// Notes are in the order of the fields.
	Notes []Note
}

// converter gathers the notes.
type converter struct {
	Converted
	// delay is how long, in seconds, a preStop hook waits for load balancers, 0 where none does.
	delay int32
}

func (c *converter) note(field, format string, args ...any) {
	c.Notes = append(c.Notes, Note{field, fmt.Sprintf(format, args...)})
}

const (
	// longestName is how long the name of an IngressDaemonSet may be.
	longestName = 52
	// usualPort is the health-check port of this project's examples.
	usualPort = 10080
	// usualGrace is the default of annotateDeploymentToDetach.gracePeriodSeconds.
	usualGrace = 10
	// longestGrace is what it may be at most.
	longestGrace = 86400
)

// begin converts what both kinds have.
func begin(kind string, was metav1.ObjectMeta, template corev1.PodTemplateSpec, selector *metav1.LabelSelector) *converter {
	c := &converter{Converted: Converted{From: kind + "/" + was.Name, Set: &v1alpha1.IngressDaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: was.Name, Namespace: was.Namespace},
	}}}
	c.metadata(was)
	c.healthChecks(&template.Spec)
	c.template(template)
	if selector != nil && len(selector.MatchExpressions) > 0 {
		c.note("spec.template.metadata.labels", "the selector of the %s has matchExpressions. An IngressDaemonSet finds its pods by labels of its own, and needs none: Services go on finding them by these", kind)
	}
	return c
}

// metadata keeps labels, but for those by which a tool tells what it has applied, and no annotation: most are
// a tool's, too.
func (c *converter) metadata(was metav1.ObjectMeta) {
	if len(was.Name) > longestName {
		c.note("metadata.name", "a name may have %d characters here, because DaemonSets and pods are named after it: choose a shorter one", longestName)
	}
	var left []string
	for key, value := range was.Labels {
		if key == "app.kubernetes.io/managed-by" || key == "helm.sh/chart" {
			left = append(left, key)
			continue
		}
		if c.Set.Labels == nil {
			c.Set.Labels = map[string]string{}
		}
		c.Set.Labels[key] = value
	}
	for key := range was.Annotations {
		if !slices.Contains(bookkeeping, key) {
			left = append(left, key)
		}
	}
	if slices.Sort(left); len(left) > 0 {
		c.note("metadata", "left out, as whoever applies this has its own: %s", strings.Join(left, ", "))
	}
}

// bookkeeping are annotations that Kubernetes writes for itself.
var bookkeeping = []string{corev1.LastAppliedConfigAnnotation, "deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision"}

// healthChecks gives nodes a port to be asked on.
func (c *converter) healthChecks(spec *corev1.PodSpec) {
	port := int32(usualPort)
	for slices.Contains(hostPorts(spec), port) {
		port++
	}
	c.Set.Spec.HealthCheckNodePorts = []int32{port}
	c.note("spec.healthCheckNodePorts", "new: point the health checks of the load balancer at this port of each node, on any path. It answers 200 while the node serves and 503 before one of its pods is touched")
	if len(hostPorts(spec)) == 0 {
		c.note("spec.healthCheckNodePorts", "the pods declare no port of their node, so that traffic comes by a Service: it needs externalTrafficPolicy Local, or a node would pass traffic on to others whatever its own health check says")
	}
}

// hostPorts are the ports of a node that pods declare to listen on.
func hostPorts(spec *corev1.PodSpec) []int32 {
	var out []int32
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, p := range container.Ports {
			switch {
			case spec.HostNetwork:
				out = append(out, p.ContainerPort)
			case p.HostPort != 0:
				out = append(out, p.HostPort)
			}
		}
	}
	return out
}

// detach has nodes taken out one after the other, or as many at a time as that was for pods.
func (c *converter) detach(nodes intstr.IntOrString) {
	grace := int32(usualGrace)
	if c.delay > 0 {
		grace = min(c.delay, longestGrace)
	}
	c.Set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{
		MaxUnavailableNodes:        &nodes,
		AnnotateDeploymentToDetach: &v1alpha1.AnnotateDeploymentToDetach{GracePeriodSeconds: &grace},
	}
	const field = "spec.updateStrategy.rollingUpdate.annotateDeploymentToDetach.gracePeriodSeconds"
	const what = "how long the load balancer takes to notice that a health check fails: its interval times its threshold, and its timeout"
	if c.delay > 0 {
		c.note(field, "%s. %d is what the preStop hook waits for", what, c.delay)
		return
	}
	c.note(field, "new: %s", what)
}

// one is a budget of one node.
func one() intstr.IntOrString { return intstr.FromInt32(1) }

// none reports whether a budget is of nothing.
func none(budget *intstr.IntOrString) bool {
	return budget == nil || budget.String() == "0" || budget.String() == "0%"
}

// historyLimit keeps one that is not the default.
func (c *converter) historyLimit(limit *int32) {
	if limit != nil && *limit != 10 {
		c.Set.Spec.RevisionHistoryLimit = limit
	}
}

// converted is what was gathered, with the notes in the order of the fields.
func (c *converter) converted() Converted {
	slices.SortStableFunc(c.Notes, func(a, b Note) int { return slices.Compare(placeOf(a.Field), placeOf(b.Field)) })
	return c.Converted
}

// order is that in which fields stand, as far as it is not that of their names.
var order = []string{"metadata", "spec", "podsPerNode", "healthCheckNodePorts", "minReadySeconds", "paused", "updateStrategy", "template"}

// placeOf makes paths comparable.
func placeOf(field string) []string {
	var place []string
	for _, part := range strings.Split(field, ".") {
		if at := slices.Index(order, part); at >= 0 {
			part = strconv.Itoa(at)
		}
		place = append(place, part)
	}
	return place
}
