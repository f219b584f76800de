package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// version is the controller's.
func (w *world) version() int {
	version, _ := strconv.Atoi(w.image[len("healthchecker:"):])
	return version
}

// upgrade is a new version of the controller, with a new health checker.
func (w *world) upgrade() {
	w.image = fmt.Sprintf("healthchecker:%d", w.version()+1)
	w.replaceLeaders()
}

// upgrade is to a version that may make something else of the same spec.
func (g *generator) upgrade() {
	if rendering := g.number("rendering", 0, 2); rendering > 0 {
		g.w.rendered(rendering == 1)
	}
	g.w.upgrade()
}

// rendered has all Deployments say what the release before made of the same spec, a field in
// the pods' template or one outside of it, where the next one makes something else. Their
// ReplicaSets say so, too: they had it from there, and no pod is replaced for it.
func (w *world) rendered(inTemplate bool) {
	for _, name := range slices.Sorted(maps.Keys(w.deployments)) {
		d := w.deployments[name]
		api := d.api.DeepCopy()
		if !inTemplate {
			w.renderStrategy(&api.Spec)
			w.api.Put(api)
			continue
		}
		w.renderTemplate(&api.Spec.Template)
		w.api.Put(api)
		d.hash = hashOf(&api.Spec.Template)
		for _, s := range d.sets {
			s.template = *s.template.DeepCopy()
			w.renderTemplate(&s.template)
			s.hash = hashOf(&s.template)
			w.putReplicaSet(d, s)
		}
	}
}

// renderTemplate is another one for each release, so that no two ReplicaSets get to be alike.
func (w *world) renderTemplate(t *corev1.PodTemplateSpec) {
	t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("release-%d", w.version()), Operator: corev1.TolerationOpExists})
}

// renderStrategy leaves alone what was chosen for one write, such as that of a hold.
func (w *world) renderStrategy(spec *appsv1.DeploymentSpec) {
	set := w.set()
	if set == nil || spec.Strategy.RollingUpdate == nil || !equality.Semantic.DeepEqual(spec.Strategy, objects.DeploymentStrategy(set)) {
		return
	}
	surge := scaled(spec.Strategy.RollingUpdate.MaxSurge, *spec.Replicas, true)
	spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(surge + 1))
}
