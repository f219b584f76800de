package routing

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var proxySet = types.NamespacedName{Namespace: "ingress", Name: "proxy"}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(time.Unix(1_000_000_000, 0))}
}

func classFor(name, set string) *networkingv1.IngressClass {
	group, scope, namespace := "ingressdaemonsets.mumoshu.github.io", "Namespace", "ingress"
	return &networkingv1.IngressClass{ObjectMeta: meta("", name), Spec: networkingv1.IngressClassSpec{
		Controller: ControllerName,
		Parameters: &networkingv1.IngressClassParametersReference{APIGroup: &group, Kind: "IngressDaemonSet", Name: set, Scope: &scope, Namespace: &namespace},
	}}
}

func serviceAt(namespace, name string, ports ...int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(namespace, name)}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p})
	}
	return s
}

// nodeDeployment is the Deployment of an IngressDaemonSet's node, with a ready pod.
func nodeDeployment(set, node string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: meta("ingress", set+"-"+node)}
	d.Labels, d.Annotations = map[string]string{v1alpha1.LabelName: set}, map[string]string{v1alpha1.AnnotationNode: node}
	owner, yes := meta("ingress", set), true
	d.OwnerReferences = []metav1.OwnerReference{{Kind: "IngressDaemonSet", Name: set, UID: owner.UID, Controller: &yes}}
	d.Status.ReadyReplicas = 1
	return d
}

// pathOf is a path to port 80 of a Service.
func pathOf(path string, pathType networkingv1.PathType, service string) networkingv1.HTTPIngressPath {
	return networkingv1.HTTPIngressPath{Path: path, PathType: &pathType, Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: 80}},
	}}
}

func ruleOf(host string, paths ...networkingv1.HTTPIngressPath) networkingv1.IngressRule {
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}}
}

func ingressFor(namespace, name, class, host, service string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: meta(namespace, name), Spec: networkingv1.IngressSpec{
		IngressClassName: &class, Rules: []networkingv1.IngressRule{ruleOf(host, pathOf("/", networkingv1.PathTypePrefix, service))},
	}}
}

func tlsOf(secret string, hosts ...string) []networkingv1.IngressTLS {
	return []networkingv1.IngressTLS{{SecretName: secret, Hosts: hosts}}
}
