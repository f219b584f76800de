package apiserver

import (
	"maps"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is how objects of a kind are made, and by which writes the controller and those
// around it change them.
type kind struct {
	empty func() client.Object
	// fill gives an object the spec, with all that the real server would fill in by
	// itself: the one in memory knows no defaults.
	fill func(client.Object, contents)
	// fillStatus gives it the status, nil where nobody writes that.
	fillStatus func(client.Object, contents)
	writes     []string
}

// contents is what is drawn of an object. Each kind makes of the last five what it has.
type contents struct {
	Labels, Annotations map[string]string
	Owned, Held         bool
	Size, Delay         int32
	Paused, Other       bool
	Image               string
}

var firstContents = contents{Size: 1, Image: "v1"}

func (k kind) whole(name string, c contents) client.Object {
	obj := k.empty()
	obj.SetName(name)
	if _, ok := obj.(*corev1.Node); !ok {
		obj.SetNamespace(namespace)
	}
	k.refill(obj, c)
	return obj
}

// refill gives an object other contents, as one does who has read it.
func (k kind) refill(obj client.Object, c contents) {
	annotations := map[string]string{}
	maps.Copy(annotations, c.Annotations)
	if kept, ok := obj.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]; ok {
		// The real server writes it to DaemonSets.
		annotations[appsv1.DeprecatedTemplateGeneration] = kept
	}
	obj.SetLabels(maps.Clone(c.Labels))
	obj.SetAnnotations(annotations)
	obj.SetOwnerReferences(owners(c))
	obj.SetFinalizers(finalizers(c))
	k.fill(obj, c)
}

// owners and finalizers have one entry at most: to the server in memory each list is one
// field, and the controller applies and claims no more.
func owners(c contents) []metav1.OwnerReference {
	if !c.Owned {
		return nil
	}
	return []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "proxy", UID: "owner"}, v1alpha1.Kind)}
}

func finalizers(c contents) []string {
	if c.Held {
		return []string{finalizer}
	}
	return nil
}

var kinds = map[string]kind{
	"Deployment": {
		empty: func() client.Object { return &appsv1.Deployment{} },
		fill: func(obj client.Object, c contents) {
			obj.(*appsv1.Deployment).Spec = appsv1.DeploymentSpec{
				Replicas: &c.Size, MinReadySeconds: c.Delay, Paused: c.Paused, Strategy: strategy(c),
				RevisionHistoryLimit: new(int32), ProgressDeadlineSeconds: new(int32(600)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "proxy"}}, Template: template(c),
			}
		},
		fillStatus: func(obj client.Object, c contents) {
			status := &obj.(*appsv1.Deployment).Status
			status.ObservedGeneration, status.Replicas, status.UpdatedReplicas = obj.GetGeneration(), c.Size, c.Size
		},
		writes: []string{"create", "update", "replace", "patch", "own", "let go", "apply", "apply in part", "dry run", "status", "delete"},
	},
	"DaemonSet": {
		empty: func() client.Object { return &appsv1.DaemonSet{} },
		fill: func(obj client.Object, c contents) {
			obj.(*appsv1.DaemonSet).Spec = appsv1.DaemonSetSpec{
				MinReadySeconds: c.Delay, RevisionHistoryLimit: new(int32(10)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "proxy"}}, Template: template(c),
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
					Type:          appsv1.RollingUpdateDaemonSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromString("25%"))},
				},
			}
		},
		fillStatus: func(obj client.Object, c contents) {
			obj.(*appsv1.DaemonSet).Status.DesiredNumberScheduled = c.Size
		},
		writes: []string{"update", "own", "apply", "status", "delete"},
	},
	"IngressDaemonSet": {
		empty: func() client.Object { return &v1alpha1.IngressDaemonSet{} },
		fill: func(obj client.Object, c contents) {
			obj.(*v1alpha1.IngressDaemonSet).Spec = v1alpha1.IngressDaemonSetSpec{
				PodsPerNode: &c.Size, MinReadySeconds: c.Delay, Paused: c.Paused, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: c.Image}}},
				},
			}
		},
		fillStatus: func(obj client.Object, c contents) {
			status := &obj.(*v1alpha1.IngressDaemonSet).Status
			status.ObservedGeneration, status.CurrentRevision, status.ServingNodes = obj.GetGeneration(), c.Image, c.Size
		},
		writes: []string{"create", "update", "own", "let go", "status", "delete"},
	},
	"Node": {
		empty: func() client.Object { return &corev1.Node{} },
		fill: func(obj client.Object, c contents) {
			spec := &obj.(*corev1.Node).Spec
			// The real server gives each new Node the first taint.
			spec.Unschedulable, spec.Taints = c.Paused, []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
			if c.Other {
				spec.Taints = append(spec.Taints, corev1.Taint{Key: "repairs", Effect: corev1.TaintEffectNoExecute})
			}
		},
		writes: []string{"create", "update", "annotate", "annotate by another", "delete"},
	},
	"ControllerRevision": {
		empty: func() client.Object { return &appsv1.ControllerRevision{} },
		fill: func(obj client.Object, c contents) {
			cr := obj.(*appsv1.ControllerRevision)
			cr.Revision, cr.Data = int64(c.Size), runtime.RawExtension{Raw: []byte(`{"template":{"metadata":{"labels":{"app":"proxy"}}}}`)}
		},
		writes: []string{"apply", "delete"},
	},
	"EndpointSlice": {
		empty: func() client.Object { return &discoveryv1.EndpointSlice{} },
		fill: func(obj client.Object, c contents) {
			slice := obj.(*discoveryv1.EndpointSlice)
			slice.AddressType = discoveryv1.AddressTypeIPv4
			slice.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(8080 + c.Size)}}
			slice.Endpoints = nil
			for _, address := range []string{"10.0.0.1", "10.0.0.2"}[:max(c.Size, 1)-1] {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{address}, NodeName: new("node"),
					Conditions: discoveryv1.EndpointConditions{Ready: &c.Paused, Serving: &c.Paused, Terminating: &c.Other},
				})
			}
		},
		writes: []string{"apply", "delete"},
	},
	"ServiceAccount": {
		empty:  func() client.Object { return &corev1.ServiceAccount{} },
		fill:   func(client.Object, contents) {},
		writes: []string{"create", "delete"},
	},
	"RoleBinding": {
		empty: func() client.Object { return &rbacv1.RoleBinding{} },
		fill: func(obj client.Object, c contents) {
			binding := obj.(*rbacv1.RoleBinding)
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
			binding.Subjects = []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: c.Image}}
		},
		writes: []string{"create", "delete"},
	},
	"Pod": {
		empty: func() client.Object { return &corev1.Pod{} },
		fill: func(obj client.Object, c contents) {
			spec := &obj.(*corev1.Pod).Spec
			*spec = template(c).Spec
			if c.Other {
				spec.NodeName = "node"
			}
		},
		writes: []string{"create", "delete at once"},
	},
}

func strategy(c contents) appsv1.DeploymentStrategy {
	if c.Other {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: rolling(c)}
}

func rolling(c contents) *appsv1.RollingUpdateDeployment {
	return &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(c.Size)), MaxSurge: new(intstr.FromInt32(c.Delay))}
}

func template(c contents) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "proxy", "revision": c.Image}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "proxy", Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName,
			SecurityContext: &corev1.PodSecurityContext{}, TerminationGracePeriodSeconds: new(int64(30)),
		},
	}
}
