package apiserver

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch does merge patches, and server-side apply.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	switch patch.Type() {
	case types.MergePatchType:
		return c.merge(obj, data, o)
	case types.ApplyYAMLPatchType:
		return c.apply(ctx, obj, data, o)
	}
	return fmt.Errorf("%s is not known here", patch.Type())
}

func (c *Client) merge(obj client.Object, data []byte, o client.PatchOptions) error {
	s, id := c.Server, c.Server.identify(obj)
	e := s.objects[id]
	if e == nil {
		return notFound(id)
	}
	var delta map[string]any
	if err := utiljson.Unmarshal(data, &delta); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	meta, _ := delta["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	version, _ := meta["resourceVersion"].(string)
	if err := current(e, id, version); err != nil {
		return err
	}
	if err := unchanged(e, id, types.UID(uid)); err != nil {
		return err
	}
	before, err := e.tree()
	if err != nil {
		return err
	}
	next, err := s.typed(id, patched(before, delta))
	if err != nil {
		return err
	}
	keepStatus(e.object, next)
	return s.change(id, e, obj, next, slices.Clone(e.claims), holder{manager: o.FieldManager})
}

// apply does server-side apply, and answers in an object of the kind.
func (c *Client) apply(ctx context.Context, obj client.Object, data []byte, o client.PatchOptions) error {
	var u unstructured.Unstructured
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&u), &client.ApplyOptions{DryRun: o.DryRun, Force: o.Force, FieldManager: o.FieldManager})
	if err != nil {
		return err
	}
	answer, err := c.Server.typed(c.Server.identify(obj), u.Object)
	if err != nil {
		return err
	}
	return Assign(obj, answer)
}

// patched is a tree after a JSON merge patch (RFC 7396).
func patched(tree, patch map[string]any) map[string]any {
	out := maps.Clone(tree)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		switch inner, isMap := value.(map[string]any); {
		case value == nil:
			delete(out, key)
		case isMap:
			mine, _ := out[key].(map[string]any)
			out[key] = patched(mine, inner)
		default:
			out[key] = value
		}
	}
	return out
}

// typed is a tree as an object of its kind.
func (s *Server) typed(id identity, content map[string]any) (client.Object, error) {
	obj := made(id.kind)
	if obj == nil {
		return nil, fmt.Errorf("kind %s is not known here", id.kind)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

func made(kind string) client.Object {
	switch kind {
	case "IngressDaemonSet":
		return &v1alpha1.IngressDaemonSet{}
	case "TargetGroupAttachment":
		return &v1alpha1.TargetGroupAttachment{}
	case "Attachment":
		return &v1alpha1.Attachment{}
	case "Pod":
		return &corev1.Pod{}
	case "Deployment":
		return &appsv1.Deployment{}
	case "DaemonSet":
		return &appsv1.DaemonSet{}
	case "ControllerRevision":
		return &appsv1.ControllerRevision{}
	case "Node":
		return &corev1.Node{}
	case "EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "RoleBinding":
		return &rbacv1.RoleBinding{}
	}
	return nil
}

// Apply does server-side apply, and answers in the configuration where that is
// unstructured.
func (c *Client) Apply(_ context.Context, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	var o client.ApplyOptions
	o.ApplyOptions(opts)
	u, ok := configuration.(interface {
		client.Object
		UnstructuredContent() map[string]any
		SetUnstructuredContent(map[string]any)
	})
	if !ok {
		return fmt.Errorf("%T cannot be applied here", configuration)
	}
	s, id := c.Server, c.Server.identify(u)
	config, who := ownable(u.UnstructuredContent()), holder{manager: o.FieldManager, applied: true}
	fields := leaves(config)
	e := s.objects[id]
	if e == nil && u.GetUID() != "" {
		return conflict(id, "uid mismatch: the provided object specified uid %s, and no existing object was found", u.GetUID())
	}
	force := o.Force != nil && *o.Force
	next, claims, err := s.applied(id, e, u, config, fields, who, force)
	if err != nil {
		return err
	}
	dry := len(o.DryRun) > 0
	switch {
	case dry:
		err = s.admit(next)
	case e == nil:
		if err = s.admit(next); err == nil {
			s.add(id, next, claims)
		}
	case !dry:
		answer := made(id.kind)
		err = s.store(id, e, answer, next, claims)
		next = answer
	}
	if err != nil {
		return err
	}
	content, err := treeOf(next)
	if err != nil {
		return err
	}
	content["apiVersion"], content["kind"] = u.UnstructuredContent()["apiVersion"], id.kind
	u.SetUnstructuredContent(content)
	return nil
}

// applied is what an object becomes, and whose its fields are then.
func (s *Server) applied(id identity, e *stored, u client.Object, config, fields map[string]any, who holder, force bool) (client.Object, []claim, error) {
	live, claims := map[string]any{}, []claim(nil)
	if e != nil {
		if err := current(e, id, u.GetResourceVersion()); err != nil {
			return nil, nil, err
		}
		var err error
		if live, err = e.tree(); err != nil {
			return nil, nil, err
		}
		claims = slices.Clone(e.claims)
	}
	have := leaves(live)
	changed := map[string]bool{}
	for path, value := range fields {
		if old, ok := have[path]; !ok || !reflect.DeepEqual(old, value) {
			changed[path] = true
		}
	}
	if err := disputed(claims, who, changed); err != nil && !force {
		return nil, nil, apierrors.NewConflict(resource(id.kind), id.name, err)
	}
	if err := unchanged(e, id, u.GetUID()); err != nil {
		return nil, nil, err
	}
	var last map[string]bool
	claims = take(claims, who, changed, nil)
	if i := holderOf(claims, who); i >= 0 {
		last, claims[i].fields = claims[i].fields, keys(fields)
	} else {
		claims = append(claims, claim{who, keys(fields)})
	}
	content := with(live, config)
	for path := range last {
		if dropped := unclaimed(claims, path); dropped != "" {
			content = without(content, dropped)
		}
	}
	if e == nil {
		meta, _ := content["metadata"].(map[string]any)
		content["metadata"] = with(meta, map[string]any{"name": id.name, "namespace": id.namespace})
	}
	next, err := s.typed(id, content)
	return next, held(claims), err
}

// disputed says whose fields would be changed.
func disputed(claims []claim, by holder, changed map[string]bool) error {
	for _, c := range claims {
		for path := range changed {
			if c.holder != by && c.fields[path] {
				return fmt.Errorf("conflict with %q: %q", c.manager, path)
			}
		}
	}
	return nil
}
