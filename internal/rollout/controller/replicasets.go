package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// of reports whether the Deployment is still the one that they were compared with.
func (c *comparison) of(d *appsv1.Deployment) bool {
	return c != nil && d != nil && c.uid == d.UID && c.generation == d.Generation
}

// knows reports whether a ReplicaSet is known to have the template, or not to have it.
func (c *comparison) knows(hash string) bool {
	return c.present != "" || slices.Contains(c.others, hash)
}

// tellOlder tells pods of the present template from older ones of the same revision, where
// the planner is in doubt. What cannot be looked up now stays in doubt until the next pass.
func (r *Reconciler) tellOlder(ctx context.Context, o *observed) {
	concerned := map[string]*rollout.Node{}
	for i := range o.state.Nodes {
		node := &o.state.Nodes[i]
		if n := o.nodes[node.Name]; n.compared.of(n.deployment) || len(node.InDoubt()) > 0 {
			concerned[node.Name] = node
		}
	}
	failed := forEach(slices.Sorted(maps.Keys(concerned)), r.parallel, func(name string) error {
		node, n := concerned[name], o.nodes[name]
		err := r.compare(ctx, n, node.InDoubt())
		node.Pods = slices.Clone(node.Pods)
		for i := range node.Pods {
			hash := node.Pods[i].ReplicaSet
			node.Pods[i].Older = hash != n.compared.present && n.compared.knows(hash)
		}
		return err
	})
	if failed != nil {
		log.FromContext(ctx).V(1).Info("which ReplicaSets are older is not known", "error", failed)
	}
}

// compare looks up which of the ReplicaSets has the Deployment's template, once with one
// generation. Their templates tell as soon as that is written; its controller says that it
// has seen it before it makes or finds the ReplicaSet and counts it as the newest.
func (r *Reconciler) compare(ctx context.Context, n *nodeObjects, hashes []string) error {
	d := n.deployment
	if !n.compared.of(d) {
		n.compared = &comparison{uid: d.UID, generation: d.Generation}
	}
	hashes = slices.DeleteFunc(hashes, n.compared.knows)
	if len(hashes) == 0 {
		return nil
	}
	live, err := r.whole(ctx, d)
	if err != nil {
		return fmt.Errorf("reading the template of Deployment %s: %w", d.Name, err)
	}
	if !unchanged(live, d) {
		// The next pass sees the other one, and is refused what it writes before that.
		return nil
	}
	var errs []error
	for _, hash := range hashes {
		set, err := r.replicaSetOf(ctx, d, hash)
		switch {
		case err != nil:
			errs = append(errs, err)
		case equality.Semantic.DeepEqual(podTemplateOf(set), live.Spec.Template):
			n.compared.present = hash
			return nil
		default:
			n.compared.others = append(n.compared.others, hash)
		}
	}
	return errors.Join(errs...)
}
