package controller

import (
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keep has a cache keep what SetUp asks for, whatever it kept of that before: of what may come by the
// thousand only what is read. What is written is kept whole but for managed fields, because an update takes
// away what it leaves out.
func Keep(c *cache.Options) {
	of := map[client.Object]cache.ByObject{
		&networkingv1.Ingress{}:      {Transform: cache.TransformStripManagedFields()},
		&networkingv1.IngressClass{}: {Transform: cache.TransformStripManagedFields()},
		&discoveryv1.EndpointSlice{}: {Transform: transformSlice},
		&corev1.Namespace{}:          {Transform: transformNamespace},
	}
	for object, kept := range c.ByObject {
		if _, is := object.(*discoveryv1.EndpointSlice); !is {
			of[object] = kept
		}
	}
	c.ByObject = of
}

// transformSlice leaves annotations and hints out, which nobody routes by, where the slice is not of an
// IngressDaemonSet.
func transformSlice(object any) (any, error) {
	slice, is := object.(*discoveryv1.EndpointSlice)
	if !is {
		return object, nil
	}
	slice.ManagedFields = nil
	if _, written := slice.Labels[v1alpha1.LabelName]; !written {
		slice.Annotations = nil
		for i := range slice.Endpoints {
			slice.Endpoints[i].Hints = nil
		}
	}
	return slice, nil
}

// transformNamespace keeps labels, by which Gateways choose.
func transformNamespace(object any) (any, error) {
	if namespace, is := object.(*corev1.Namespace); is {
		namespace.ManagedFields, namespace.Annotations = nil, nil
		namespace.Spec, namespace.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	}
	return object, nil
}
