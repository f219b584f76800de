package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	namespace = "default"
	finalizer = "example.com/hold"
	// us and them are field managers.
	us, them = objects.FieldManager, "kubectl"
)

var ctx = context.Background()

// TestSameWrites plays the writes of the controller, and of those around it, against the
// API server in memory and a real one: what becomes of each must be the same.
//
// What differs and cannot be noticed by the controller is not drawn:
//   - In memory nothing has a default, so that all is written with it (kinds_test.go).
//   - Applying takes a list for one field. The controller applies one owner reference and
//     one container, and replaces a spec in which others claim fields.
//   - An empty map is no field that could be applied, and no part of an object makes one:
//     nobody does either.
//   - Claims that were read before and written unguarded would come back. Whoever writes
//     claims has just read them.
//   - The status of Nodes can be written with the rest of them. Only fakes write it.
//   - Pods have no generation and are not deleted gracefully. Fakes do that themselves.
func TestSameWrites(t *testing.T) {
	// Most is done to these.
	names := append(slices.Sorted(maps.Keys(kinds)), "Deployment", "Deployment", "Deployment", "IngressDaemonSet", "IngressDaemonSet", "Node")
	turn := 0
	rapid.Check(t, func(t *rapid.T) {
		turn++
		name := rapid.SampledFrom(names).Draw(t, "kind")
		p := &play{T: t, kind: kinds[name], name: fmt.Sprintf("object-%d", turn), latest: firstContents}
		p.sides = [2]*side{{Client: real}, {Client: &apiserver.Client{Server: apiserver.New(scheme)}}}
		all := p.all()
		actions := map[string]func(*rapid.T){}
		for _, w := range p.writes {
			actions[w] = func(t *rapid.T) {
				p.T = t
				p.compare(w, all[w]())
			}
		}
		t.Repeat(actions)
	})
}

// play draws writes to one object.
type play struct {
	*rapid.T
	kind
	name  string
	sides [2]*side
	// latest are the contents that were drawn last.
	latest contents
}

// write writes to the object of a side, and gives what was answered.
type write func(*side) (client.Object, error)

// all draw the writes of each name.
func (p *play) all() map[string]func() write {
	return map[string]func() write{
		"create":              p.create,
		"update":              func() write { return p.update(false) },
		"replace":             func() write { return p.update(true) },
		"patch":               p.patch,
		"own":                 func() write { return p.merge(p.draw()) },
		"let go":              func() write { return p.merge(contents{}) },
		"apply":               func() write { return p.apply(us) },
		"apply in part":       p.applyInPart,
		"dry run":             p.dryRun,
		"annotate":            func() write { return p.annotate(us) },
		"annotate by another": func() write { return p.annotate(them) },
		"status":              p.status,
		"delete":              func() write { return p.delete() },
		"delete at once":      func() write { return p.delete(client.GracePeriodSeconds(0)) },
	}
}

// draw are the contents that were drawn last with some changes.
func (p *play) draw() contents {
	c := &p.latest
	for range rapid.IntRange(0, 3).Draw(p.T, "changes") {
		switch rapid.IntRange(0, 8).Draw(p.T, "change") {
		case 0:
			c.Labels = p.strings("label")
		case 1:
			c.Annotations = p.strings("annotation")
		case 2:
			c.Owned = p.yes("owned")
		case 3:
			c.Held = p.yes("held")
		case 4:
			c.Size = rapid.Int32Range(1, 3).Draw(p.T, "size")
		case 5:
			c.Delay = rapid.Int32Range(0, 1).Draw(p.T, "delay")
		case 6:
			c.Paused = p.yes("paused")
		case 7:
			c.Other = p.yes("other")
		case 8:
			c.Image = rapid.SampledFrom([]string{"v1", "v2"}).Draw(p.T, "image")
		}
	}
	return *c
}

func (p *play) yes(what string) bool { return rapid.Bool().Draw(p.T, what) }

// strings are labels or annotations, in values that are valid as both.
func (p *play) strings(what string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2"}), 0, 2).Draw(p.T, what)
}

func (p *play) owner() client.FieldOwner {
	return client.FieldOwner(rapid.SampledFrom([]string{us, them}).Draw(p.T, "field owner"))
}

// versions is how many there were of the object. There are as many in memory.
func (p *play) versions() int { return len(p.sides[0].versions) }

// seen skips a write to what was never read.
func (p *play) seen() {
	if p.versions() == 0 {
		p.Skip("there is none")
	}
}

// version is one that was read before: 0 the newest, as it mostly is, 1 that before it.
func (p *play) version() int {
	p.seen()
	back := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 3}).Draw(p.T, "version")
	return min(back, p.versions()-1)
}

// guard is what a writer takes for granted.
type guard struct{ uid, resourceVersion func(*side) string }

// guard draws it from one that was read before, from another object, or has none.
func (p *play) guard() guard {
	none := func(*side) string { return "" }
	g := guard{none, none}
	if p.versions() > 0 {
		uid, version := p.version(), p.version()
		if p.yes("guarded by UID") {
			g.uid = func(s *side) string { return string(s.version(uid).GetUID()) }
		}
		if p.yes("guarded by version") {
			g.resourceVersion = func(s *side) string { return s.version(version).GetResourceVersion() }
		}
	}
	if rapid.IntRange(0, 9).Draw(p.T, "another UID") == 9 {
		g.uid = func(*side) string { return "another" }
	}
	return g
}

// metadata is that of a patch or a configuration.
func (g guard) metadata(s *side) map[string]any {
	out := map[string]any{}
	if uid := g.uid(s); uid != "" {
		out["uid"] = uid
	}
	if version := g.resourceVersion(s); version != "" {
		out["resourceVersion"] = version
	}
	return out
}

func (p *play) create() write {
	c, owner := p.draw(), p.owner()
	return func(s *side) (client.Object, error) {
		obj := p.whole(p.name, c)
		return obj, s.Create(ctx, obj, owner)
	}
}

// update replaces the object, as it was read last or without claims to the spec.
func (p *play) update(unclaimed bool) write {
	p.seen()
	c, owner, g := p.draw(), p.owner(), p.guard()
	return func(s *side) (client.Object, error) {
		obj := s.version(0)
		p.refill(obj, c)
		obj.SetUID(types.UID(g.uid(s)))
		obj.SetResourceVersion(g.resourceVersion(s))
		if unclaimed {
			obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), objects.Outlives))
		}
		return obj, s.Update(ctx, obj, owner)
	}
}

// patch changes annotations, labels and the part of a Deployment's spec that restarts no
// pod.
func (p *play) patch() write {
	c, owner, g, drop := p.draw(), p.owner(), p.guard(), p.yes("drop")
	return func(s *side) (client.Object, error) {
		meta := g.metadata(s)
		meta["labels"] = c.Labels
		annotations := map[string]any{"a": nil}
		for key, value := range c.Annotations {
			annotations[key] = value
		}
		meta["annotations"] = annotations
		patch := map[string]any{"metadata": meta}
		switch {
		case drop:
			patch["spec"] = map[string]any{"paused": nil, "minReadySeconds": c.Delay, "strategy": map[string]any{"type": "Recreate", "rollingUpdate": nil}}
		case c.Delay > 0:
			patch["spec"] = map[string]any{"paused": c.Paused, "replicas": c.Size, "strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": rolling(c)}}
		}
		data, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		obj := p.whole(p.name, contents{})
		return obj, s.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data), owner)
	}
}

// merge changes owner references and finalizers of what was read before.
func (p *play) merge(c contents) write {
	from := p.version()
	return func(s *side) (client.Object, error) {
		read, obj := s.version(from), s.version(from)
		obj.SetOwnerReferences(owners(c))
		obj.SetFinalizers(finalizers(c))
		patch := client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
		return obj, s.Patch(ctx, obj, patch, client.FieldOwner(us))
	}
}

// apply applies the object whole.
func (p *play) apply(manager string, opts ...client.PatchOption) write {
	c, g := p.draw(), p.guard()
	c.Held = false
	if p.yes("force") {
		opts = append(opts, client.ForceOwnership)
	}
	return func(s *side) (client.Object, error) {
		config, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.whole(p.name, c))
		if err != nil {
			return nil, err
		}
		delete(config, "status")
		return p.send(s, manager, g, config, opts...)
	}
}

// dryRun asks whether an object would be accepted. Nobody reads what it would be.
func (p *play) dryRun() write {
	apply := p.apply(us, client.DryRunAll)
	return func(s *side) (client.Object, error) {
		_, err := apply(s)
		return nil, err
	}
}

// applyInPart applies a few fields of an object that is there.
func (p *play) applyInPart() write {
	c, g := p.draw(), p.guard()
	if p.sides[0].stored == nil {
		p.Skip("it would be no whole object")
	}
	config := metadata(contents{Annotations: c.Annotations, Labels: c.Labels})
	if c.Delay > 0 {
		config["spec"] = map[string]any{"minReadySeconds": int64(c.Delay)}
	}
	var opts []client.PatchOption
	if p.yes("force") {
		opts = append(opts, client.ForceOwnership)
	}
	return func(s *side) (client.Object, error) {
		return p.send(s, them, g, runtime.DeepCopyJSON(config), opts...)
	}
}

// annotate applies annotations alone, or none any more. Nobody makes a Node by that.
func (p *play) annotate(manager string) write {
	c, g := p.draw(), p.guard()
	if p.sides[0].stored == nil {
		g.uid = func(*side) string { return "another" }
	}
	return func(s *side) (client.Object, error) {
		return p.send(s, manager, g, metadata(contents{Annotations: c.Annotations}))
	}
}

// metadata is a configuration of labels and annotations alone.
func metadata(c contents) map[string]any {
	meta := map[string]any{}
	for field, values := range map[string]map[string]string{"labels": c.Labels, "annotations": c.Annotations} {
		if len(values) > 0 {
			plain := map[string]any{}
			for key, value := range values {
				plain[key] = value
			}
			meta[field] = plain
		}
	}
	return map[string]any{"metadata": meta}
}

// send applies a configuration, as a patch, and gives the answer as an object of the kind.
func (p *play) send(s *side, manager string, g guard, config map[string]any, opts ...client.PatchOption) (client.Object, error) {
	answer := p.empty()
	gvk, err := apiutil.GVKForObject(answer, scheme)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: config}
	u.SetGroupVersionKind(gvk)
	u.SetName(p.name)
	u.SetNamespace(p.whole(p.name, contents{}).GetNamespace())
	u.SetUID(types.UID(g.uid(s)))
	u.SetResourceVersion(g.resourceVersion(s))
	body, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	answer.SetName(u.GetName())
	answer.SetNamespace(u.GetNamespace())
	err = s.Patch(ctx, answer, client.RawPatch(types.ApplyYAMLPatchType, body), append(opts, client.FieldOwner(manager))...)
	return answer, err
}

// status writes the status. Of an IngressDaemonSet nothing else counts; of others nobody
// changes more.
func (p *play) status() write {
	p.seen()
	c, g := p.draw(), p.guard()
	return func(s *side) (client.Object, error) {
		obj := s.version(0)
		if _, ours := obj.(*v1alpha1.IngressDaemonSet); ours {
			p.refill(obj, c)
		}
		p.fillStatus(obj, c)
		obj.SetUID(types.UID(g.uid(s)))
		obj.SetResourceVersion(g.resourceVersion(s))
		return obj, s.Status().Update(ctx, obj, client.FieldOwner(us))
	}
}

func (p *play) delete(opts ...client.DeleteOption) write {
	g := p.guard()
	policies := []metav1.DeletionPropagation{"", metav1.DeletePropagationBackground, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	if policy := rapid.SampledFrom(policies).Draw(p.T, "propagation"); policy != "" {
		opts = append(opts, client.PropagationPolicy(policy))
	}
	return func(s *side) (client.Object, error) {
		opts := slices.Clone(opts)
		var only client.Preconditions
		if uid := types.UID(g.uid(s)); uid != "" {
			only.UID = &uid
		}
		if version := g.resourceVersion(s); version != "" {
			only.ResourceVersion = &version
		}
		opts = append(opts, only)
		return nil, s.Delete(ctx, p.whole(p.name, contents{}), opts...)
	}
}
