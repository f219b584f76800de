package objects

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// CheckerRole is the ClusterRole that the controller may bind, in the namespace
// of an IngressDaemonSet, to the account of its health checkers.
const CheckerRole = "ingress-daemonset-healthchecker"

const stateDir = "/state"

// Checker is the DaemonSet that answers on a health-check port. Its pods use the
// host network and declare no port, so that an old and a new one can listen
// together while one hands over to the other.
func Checker(set *v1alpha1.IngressDaemonSet, port int32, image string) *appsv1.DaemonSet {
	labels := checkerLabels(set, port)
	name := CheckerName(set, port)
	// A dead node counts as one that surges, for as long as it is dead: where fewer may,
	// it holds up the others.
	none, all := intstr.FromInt32(0), intstr.FromString("100%")
	ds := &appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: set.Namespace, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: checkerTemplate(set, port, image),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &none, MaxSurge: &all},
			},
		},
	}
	labelCheckers(ds)
	return ds
}

// labelCheckers labels the pods of health checkers with the hash of their template.
func labelCheckers(ds *appsv1.DaemonSet) {
	t := &ds.Spec.Template
	t.Labels = nil
	t.Labels = merge(ds.Labels, map[string]string{v1alpha1.LabelHealthCheckerRevision: hash(*t)})
}

// CheckerName is <name>-<port>.
func CheckerName(set *v1alpha1.IngressDaemonSet, port int32) string {
	return fmt.Sprintf("%s-%d", set.Name, port)
}

// PortLabel is the value of LabelHealthCheckPort.
func PortLabel(port int32) string { return strconv.Itoa(int(port)) }

func checkerLabels(set *v1alpha1.IngressDaemonSet, port int32) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:            v1alpha1.LabelValue(set.Name),
		v1alpha1.LabelHealthCheckPort: PortLabel(port),
	}
}

func checkerTemplate(set *v1alpha1.IngressDaemonSet, port int32, image string) corev1.PodTemplateSpec {
	c, pod := set.Spec.HealthChecker, set.Spec.Template.Spec
	if c.Image != "" {
		image = c.Image
	}
	tolerations := c.Tolerations
	if tolerations == nil {
		tolerations = pod.Tolerations
	}
	args := []string{
		"--namespace=" + set.Namespace, "--name=" + set.Name, "--uid=" + string(set.UID), fmt.Sprintf("--port=%d", port), "--state-dir=" + stateDir,
	}
	if ports := ingressPorts(&pod); len(ports) > 0 {
		args = append(args, "--ingress-ports="+strings.Join(ports, ","))
	}
	grace := int64(10)
	if hook := set.Spec.DrainHook; hook != nil {
		args = append(args, "--drain-grace="+drainGrace(set).String(), "--drain-linger="+hook.LingerTime().String(), "--drain-stop="+hook.StopTime().String())
		// One that ends waits for the hooks of pods that end with it, and goes on holding
		// the pods that it holds. It has their priority, since the kubelet of a node that
		// shuts down stops pods by it.
		grace += podGrace(&pod) + 10
	}
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		HostNetwork:                   true,
		ServiceAccountName:            CheckerAccount(set),
		NodeSelector:                  merge(pod.NodeSelector, set.Spec.NodeSelector),
		Affinity:                      nodeAffinityOf(pod.Affinity),
		Tolerations:                   tolerations,
		PriorityClassName:             pod.PriorityClassName,
		ImagePullSecrets:              pod.ImagePullSecrets,
		TerminationGracePeriodSeconds: &grace,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)), FSGroup: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "healthchecker", Image: image, ImagePullPolicy: c.ImagePullPolicy, Resources: checkerResources(c),
			Command: []string{"/healthchecker"}, Args: args,
			Env:          checkerEnv(set),
			VolumeMounts: []corev1.VolumeMount{{Name: "state", MountPath: stateDir}},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/healthchecker", "ready", "--state-dir=" + stateDir}}},
				PeriodSeconds: 2, TimeoutSeconds: 5,
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
}

// checkerResources are a little of both where the user says nothing: a pod without requests is
// the first to be evicted or killed where memory is short, and gets next to no processor time
// where that is, so that a surge of traffic would empty the load balancer. There is no limit,
// since one that is reached ends, or delays, the answer to health checks.
func checkerResources(c v1alpha1.HealthChecker) corev1.ResourceRequirements {
	if len(c.Resources.Requests)+len(c.Resources.Limits)+len(c.Resources.Claims) > 0 {
		return c.Resources
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}}
}

func checkerEnv(set *v1alpha1.IngressDaemonSet) []corev1.EnvVar {
	out := []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}}
	if key := set.Spec.Strategy().MarkKey; key != v1alpha1.DefaultMarkKey {
		// No flag: a health checker of another release, which spec.healthChecker.image may
		// name, would not know it.
		out = append(out, corev1.EnvVar{Name: "MARK_KEY", Value: key})
	}
	return out
}

// drainGrace is how long health checks have to fail until pods may stop. The
// controller, which knows better, needs a moment to see that a node is drained.
func drainGrace(set *v1alpha1.IngressDaemonSet) time.Duration {
	// Also where the rollout asks a detacher first and waits for no grace of the mark, as with
	// failHealthChecks AfterDetachment: where somebody drains, nobody has asked one.
	return max(set.Spec.Strategy().NoticeGrace, 10*time.Second)
}

func podGrace(pod *corev1.PodSpec) int64 {
	if pod.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds
	}
	return *pod.TerminationGracePeriodSeconds
}

// ingressPorts are the TCP ports that pods of the host network declare, in order:
// their sockets are where the health checker sees them. Those of other pods are in
// network namespaces of their own.
func ingressPorts(pod *corev1.PodSpec) []string {
	if !pod.HostNetwork {
		return nil
	}
	var numbers []int32
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.Protocol == "" || p.Protocol == corev1.ProtocolTCP {
					numbers = append(numbers, p.ContainerPort)
				}
			}
		}
	}
	slices.Sort(numbers)
	var ports []string
	for _, number := range slices.Compact(numbers) {
		ports = append(ports, strconv.Itoa(int(number)))
	}
	return ports
}

// nodeAffinityOf keeps what places pods on nodes and drops what places them
// relative to other pods.
func nodeAffinityOf(a *corev1.Affinity) *corev1.Affinity {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: a.NodeAffinity}
}

// CheckerAccount is the service account of the health checkers.
func CheckerAccount(set *v1alpha1.IngressDaemonSet) string {
	if name := set.Spec.HealthChecker.ServiceAccountName; name != "" {
		return name
	}
	return set.Name + "-healthchecker"
}

// CheckerServiceAccount is that account, nil where the user names one.
func CheckerServiceAccount(set *v1alpha1.IngressDaemonSet) *corev1.ServiceAccount {
	if set.Spec.HealthChecker.ServiceAccountName != "" {
		return nil
	}
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: ownedMeta(set, CheckerAccount(set)),
	}
}

// CheckerRoleBinding lets the account read what the health checkers watch.
func CheckerRoleBinding(set *v1alpha1.IngressDaemonSet) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
		ObjectMeta: ownedMeta(set, set.Name+"-healthchecker-"+digest([]byte(CheckerAccount(set)), 6)),
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: CheckerAccount(set), Namespace: set.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: CheckerRole},
	}
}

func ownedMeta(set *v1alpha1.IngressDaemonSet, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: set.Namespace,
		Labels:          map[string]string{v1alpha1.LabelName: v1alpha1.LabelValue(set.Name)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.Kind)},
	}
}
