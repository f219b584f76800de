package controller

import (
	"slices"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is the State that was read, and the objects that apply needs.
type observed struct {
	session  *session
	set      *v1alpha1.IngressDaemonSet
	state    rollout.State
	strategy v1alpha1.Strategy
	reader   objects.Reader

	template  corev1.PodTemplateSpec
	revisions map[string]*appsv1.ControllerRevision
	nodes     map[string]*nodeObjects
	checkers  map[int32]*appsv1.DaemonSet
	// seated are the health-check ports behind which pods may hold ports of nodes.
	seated  map[int32]bool
	service *corev1.Service
	// unusable says whether the service must change before it can be published to.
	unusable bool
	// published are our EndpointSlices.
	published []*discoveryv1.EndpointSlice
	// podSpecs are what pods were made from, by revision, where there is a Service.
	podSpecs map[string]*corev1.PodSpec
	// missing are the health checkers' account and its binding where they are not there.
	missing []client.Object
	// orphans are health checkers that an IngressDaemonSet of the same name left behind.
	orphans []*appsv1.DaemonSet
	// lookAt is when something that no event tells of is worth another look.
	lookAt time.Time
	// taken are the health-check ports that belong to another IngressDaemonSet.
	taken map[int32]bool
	// look says whether the object is still the one that was decided upon.
	look struct {
		once sync.Once
		err  error
	}
	// released says whether the finalizer was removed.
	released bool
	// unrecorded says whether the present template could not be put on record.
	unrecorded bool
}

type nodeObjects struct {
	node       *corev1.Node
	deployment *appsv1.Deployment
	// left is a Deployment that an IngressDaemonSet of the same name has left behind, until
	// it is adopted: its pods serve.
	left     *appsv1.Deployment
	pods     []*corev1.Pod
	checkers []*corev1.Pod
	reading  *reading
	// compared is what was looked up of the Deployment's ReplicaSets, nil where nothing was.
	compared *comparison
	// insist is the version that the Deployment must still have to be written; empty where
	// any will do whose spec is the same.
	insist string
}

// comparison is what was found of a Deployment's ReplicaSets, by hash, with one generation of
// it: which has its template, empty where that is not known, and which have another.
type comparison struct {
	uid        types.UID
	generation int64
	present    string
	others     []string
}

func (o *observed) fault(reason, message string) {
	f := rollout.Fault{Reason: reason, Message: message}
	if !slices.Contains(o.state.Faults, f) {
		o.state.Faults = append(o.state.Faults, f)
	}
}

func (o *observed) place(d *appsv1.Deployment) {
	name := d.Annotations[v1alpha1.AnnotationNode]
	switch {
	case name == "":
	case controlledBy(d, o.set.UID):
		o.at(name).deployment = d
	case o.set.DeletionTimestamp != nil && orphaned(d):
		// The garbage collector was quicker: it has made orphans of the Deployments
		// already, and removed the finalizer that says so.
		if o.state.Deletion == rollout.DeleteInWaves {
			o.state.Deletion = rollout.DeleteOrphaning
		}
		o.at(name).deployment = d
	case orphaned(d):
		o.at(name).left = d
	}
}

// orphaned reports whether a Deployment is one of ours that has no owner any more. The node tells
// that it is ours: without it nobody would know of which node it is, and somebody may have taken
// the other annotations.
func orphaned(d client.Object) bool {
	return metav1.GetControllerOfNoCopy(d) == nil && d.GetAnnotations()[v1alpha1.AnnotationNode] != ""
}

// at is the node of the name, although its Node object may be gone.
func (o *observed) at(name string) *nodeObjects {
	if o.nodes[name] == nil {
		o.nodes[name] = &nodeObjects{}
	}
	return o.nodes[name]
}

// byName selects what carries the name of the IngressDaemonSet, in its namespace.
func (o *observed) byName() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(o.set.Namespace),
		client.MatchingLabels{v1alpha1.LabelName: v1alpha1.LabelValue(o.set.Name)},
		client.UnsafeDisableDeepCopy,
	}
}
