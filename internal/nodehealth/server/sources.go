package server

import (
	"errors"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
)

// Sources are where the objects of one node are listed and watched.
type Sources struct {
	// Deployments are the sources of one each, by each name that it may have.
	Deployments []*cache.ListWatch
	Pods        *cache.ListWatch
}

// NewSources selects the subject's objects at the API server, in the namespace
// of the IngressDaemonSet. It needs the verbs list and watch. The error is in
// the config, such as an unreadable certificate; the server is not asked yet.
//
// The API server has an index of watches by an object's name, and for pods by their node.
// By labels alone it compares each change with each watch: the square of the nodes.
func NewSources(config *rest.Config, namespace string, subject nodehealth.Subject) (Sources, error) {
	onNode := metav1.ListOptions{
		LabelSelector: labels.Set{
			v1alpha1.LabelNode: v1alpha1.LabelValue(subject.Node),
			v1alpha1.LabelName: v1alpha1.LabelValue(subject.Name),
		}.String(),
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", subject.Node).String(),
	}
	client, err := newHTTPClient(config)
	if err != nil {
		return Sources{}, fmt.Errorf("making a client of the API server: %w", err)
	}
	apps, appsErr := newRESTClient(config, client, appsv1.SchemeGroupVersion, "/apis", appsv1.AddToScheme)
	core, coreErr := newRESTClient(config, client, corev1.SchemeGroupVersion, "/api", corev1.AddToScheme)
	if err := errors.Join(appsErr, coreErr); err != nil {
		return Sources{}, fmt.Errorf("making a client of the API server: %w", err)
	}
	sources := Sources{Pods: cache.NewFilteredListWatchFromClient(core, "pods", namespace, narrow(onNode))}
	for _, name := range v1alpha1.DeploymentNames(subject.Name, subject.Node) {
		named := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
		sources.Deployments = append(sources.Deployments, cache.NewFilteredListWatchFromClient(apps, "deployments", namespace, narrow(named)))
	}
	return sources, nil
}

func narrow(to metav1.ListOptions) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = to.LabelSelector, to.FieldSelector
	}
}

// newRESTClient knows one API group only: the whole clientset costs several MB.
func newRESTClient(config *rest.Config, client *http.Client, version schema.GroupVersion, path string, add func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &version, path
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return rest.RESTClientForConfigAndClient(own, client)
}
