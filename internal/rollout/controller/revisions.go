package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *Reconciler) observeRevisions(ctx context.Context, o *observed) error {
	if err := r.catchUp(ctx, o, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	list := &appsv1.ControllerRevisionList{}
	if err := r.client.List(ctx, list, o.byName()...); err != nil {
		return fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	o.revisions, o.state.Revisions = map[string]*appsv1.ControllerRevision{}, map[string]bool{}
	seen := map[string]bool{}
	for i := range list.Items {
		cr := latest(r.mutations, &list.Items[i])
		seen[cr.Name] = true
		o.record(cr)
	}
	for _, own := range unseen(r.mutations, o.set.UID, func(cr *appsv1.ControllerRevision) bool { return seen[cr.Name] }) {
		o.record(own)
	}
	present := o.revisions[o.state.Revision]
	o.state.BroughtBack = present != nil && present.Revision <= o.newest(o.state.Revision)
	return nil
}

// newest is the number of the revision that was recorded last, but for one of them. Two
// may have the same, if two controllers recorded them.
func (o *observed) newest(but string) int64 {
	var newest int64
	for revision, cr := range o.revisions {
		if revision != but {
			newest = max(newest, cr.Revision)
		}
	}
	return newest
}

func (o *observed) record(cr *appsv1.ControllerRevision) {
	if revision := cr.Labels[v1alpha1.LabelRevision]; controlledBy(cr, o.set.UID) {
		o.revisions[revision] = cr
		o.state.Revisions[revision] = true
	}
}

func (r *Reconciler) recordRevision(ctx context.Context, o *observed) error {
	cr, err := objects.ControllerRevision(o.set, o.state.Revision, o.newest(o.state.Revision)+1)
	if err != nil {
		return err
	}
	if err := r.write(ctx, cr, client.ForceOwnership); err != nil {
		return err
	}
	r.mutations.remember(cr)
	o.record(cr)
	return nil
}

// pruneRevisions deletes the oldest revisions over the limit that no node has, nor any of
// its pods: the record tells which ports they listen on.
func (r *Reconciler) pruneRevisions(ctx context.Context, o *observed) error {
	if len(o.revisions) <= o.set.Spec.HistoryLimit() {
		return nil
	}
	used := map[string]bool{o.state.Revision: true, o.set.Status.CurrentRevision: true}
	for _, n := range o.state.Nodes {
		if n.Deployment != nil {
			used[n.Deployment.Revision] = true
		}
		for _, pod := range n.Pods {
			used[pod.Revision] = true
		}
	}
	old := slices.SortedFunc(maps.Values(o.revisions), func(a, b *appsv1.ControllerRevision) int {
		return int(a.Revision - b.Revision)
	})
	old = slices.DeleteFunc(old, func(cr *appsv1.ControllerRevision) bool { return used[cr.Labels[v1alpha1.LabelRevision]] })
	for _, cr := range old[:max(0, len(old)-o.set.Spec.HistoryLimit())] {
		if err := r.delete(ctx, cr); err != nil {
			return fmt.Errorf("pruning revision %s: %w", cr.Name, err)
		}
	}
	return nil
}

// templateOf is the template of a revision, from the record.
func (o *observed) templateOf(revision string) (corev1.PodTemplateSpec, error) {
	if revision == o.state.Revision {
		return o.template, nil
	}
	cr := o.revisions[revision]
	if cr == nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("no ControllerRevision of %s is left", revision)
	}
	return objects.RecordedTemplate(cr)
}
