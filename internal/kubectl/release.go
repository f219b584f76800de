package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout/objects"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// release removes what asks for the node's detachment, but for what an IngressDaemonSet
// asks, and takes back itself when the node has had its turn. It is one write, refused
// where the Node changed since it was read: an IngressDaemonSet that asked meanwhile would
// go on believing that it had.
func (n *outNode) release(ctx context.Context, api client.Client) error {
	if n.node == nil {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		living, err := n.askers(ctx, api)
		if err != nil {
			return err
		}
		before := n.node.DeepCopy()
		for _, key := range removable(n.node, living) {
			delete(n.node.Annotations, key)
		}
		if len(n.node.Annotations) == len(before.Annotations) {
			return nil
		}
		err = api.Patch(ctx, n.node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
		if apierrors.IsConflict(err) {
			if err := api.Get(ctx, client.ObjectKey{Name: n.name}, n.node); err != nil {
				return err
			}
		}
		return err
	})
}

// askers are the UIDs of the IngressDaemonSets that there are; they are not asked for
// where the Node has no request of any.
func (n *outNode) askers(ctx context.Context, api client.Client) (map[types.UID]bool, error) {
	living := map[types.UID]bool{}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(n.node.Annotations)), isRequest) {
		return living, nil
	}
	var sets v1alpha1.IngressDaemonSetList
	if err := api.List(ctx, &sets); err != nil {
		return nil, fmt.Errorf("looking for the IngressDaemonSets that ask for the detachment of node %q: %w", n.name, err)
	}
	for _, set := range sets.Items {
		living[set.UID] = true
	}
	return living, nil
}

func isRequest(key string) bool {
	_, request := v1alpha1.DetachmentRequester(key)
	return request
}

// removable are the annotations that ask for the node's detachment on nobody's behalf
// any more: a person's, and with their requests those of IngressDaemonSets that are gone.
// Each IngressDaemonSet is a field manager of its own that owns what it asks with together
// with its request, and nothing else. Whoever else wrote a request, such as a person who
// edited the Node, may own any annotation.
func removable(node *corev1.Node, living map[types.UID]bool) []string {
	kept, out := map[string]bool{}, []string{v1alpha1.AnnotationNodeDetached}
	owned := map[string]bool{}
	for _, entry := range node.ManagedFields {
		if !objects.AsksForNodes(entry.Manager) {
			continue
		}
		keys := ownAnnotations(entry)
		i := slices.IndexFunc(keys, isRequest)
		if i < 0 {
			continue
		}
		owned[keys[i]] = true
		if uid, _ := v1alpha1.DetachmentRequester(keys[i]); !living[uid] {
			out = append(out, keys...)
			continue
		}
		for _, key := range keys {
			kept[key] = true
		}
	}
	for key := range node.Annotations {
		uid, request := v1alpha1.DetachmentRequester(key)
		switch {
		case !request || owned[key]:
		case living[uid]:
			// Nobody tells what it asked with.
			kept[v1alpha1.AnnotationNodeDetached] = true
		default:
			out = append(out, key)
		}
	}
	return slices.DeleteFunc(out, func(key string) bool { return kept[key] })
}

// ownAnnotations are the keys of the annotations that a field manager owns.
func ownAnnotations(entry metav1.ManagedFieldsEntry) []string {
	var fields struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if entry.FieldsV1 != nil {
		// The API server writes them; what cannot be read owns nothing.
		_ = json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields)
	}
	var keys []string
	for key := range fields.Metadata.Annotations {
		if key, ok := strings.CutPrefix(key, "f:"); ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
