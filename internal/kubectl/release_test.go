package kubectl

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	ofNginx = v1alpha1.AnnotationDetachPrefix + "1"
	ofGone  = v1alpha1.AnnotationDetachPrefix + "gone"
	asks    = v1alpha1.AnnotationNodeDetached
	askedBy = "example.com/detach"
)

// annotated is a Node with annotations, some owned by field managers.
func annotated(owners map[string][]string, keys ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{"of others": "x"}}}
	for _, key := range keys {
		node.Annotations[key] = "x"
	}
	for _, manager := range slices.Sorted(maps.Keys(owners)) {
		fields := &metav1.FieldsV1{}
		fields.SetRawString(`{"f:metadata":{"f:annotations":{"f:` + strings.Join(owners[manager], `":{},"f:`) + `":{}}}}`)
		node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: fields})
	}
	return node
}

// TestRemovable never parts a request from the annotation that asks.
func TestRemovable(t *testing.T) {
	living := map[types.UID]bool{"1": true}
	for name, c := range map[string]struct {
		node *corev1.Node
		left []string
	}{
		"a person's":               {annotated(map[string][]string{"kubectl": {asks}}, asks), nil},
		"a rollout's":              {annotated(map[string][]string{"ids/default/nginx": {asks, ofNginx}}, asks, ofNginx), []string{asks, ofNginx}},
		"a rollout's, and mine":    {annotated(map[string][]string{"ids/default/nginx": {asks, ofNginx}, "kubectl": {asks}}, asks, ofNginx), []string{asks, ofNginx}},
		"under another key":        {annotated(map[string][]string{"ids/default/nginx": {askedBy, ofNginx}}, asks, askedBy, ofNginx), []string{askedBy, ofNginx}},
		"of one that is gone":      {annotated(map[string][]string{"ids/default/gone": {asks, ofGone}}, asks, ofGone), nil},
		"gone, under another key":  {annotated(map[string][]string{"ids/default/gone": {askedBy, ofGone}}, askedBy, ofGone), nil},
		"of one that is gone, too": {annotated(map[string][]string{"ids/default/nginx": {asks, ofNginx}, "ids/default/gone": {asks, ofGone}}, asks, ofNginx, ofGone), []string{asks, ofNginx}},
		"edited by a person":       {annotated(map[string][]string{"kubectl-edit": {asks, ofGone, "of others"}}, asks, ofGone), nil},
		"a rollout's, edited":      {annotated(map[string][]string{"ids/default/nginx": {asks}, "kubectl-edit": {ofNginx, "of others"}}, asks, ofNginx), []string{asks, ofNginx}},
		"no owner is known":        {annotated(nil, asks, ofNginx, ofGone), []string{asks, ofNginx}},
	} {
		left := maps.Clone(c.node.Annotations)
		for _, key := range removable(c.node, living) {
			delete(left, key)
		}
		want := append([]string{"of others"}, c.left...)
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(left)); !slices.Equal(got, want) {
			t.Errorf("%s: left are %v, want %v", name, got, want)
		}
	}
}

// TestReleaseMeetsARequest leaves both annotations of an IngressDaemonSet that asks between
// the read of the Node and the write.
func TestReleaseMeetsARequest(t *testing.T) {
	f := newFakeAPI(t)
	set := midway()
	f.put(kindSet, set)
	f.put(kindNode, annotated(map[string][]string{"kubectl": {asks}}, asks))
	f.beforePatch = func() {
		f.put(kindNode, annotated(map[string][]string{"kubectl": {asks}, "ids/default/nginx": {asks, ofNginx}}, asks, ofNginx))
	}
	if out, err := f.ids("attach", "node-1", "--wait=false"); err != nil || f.beforePatch != nil {
		t.Errorf("%v, %s", err, out)
	}
	node := &corev1.Node{}
	f.read(kindNode, "node-1", node)
	if got := slices.Sorted(maps.Keys(node.Annotations)); !slices.Equal(got, []string{ofNginx, asks, "of others"}) {
		t.Errorf("the Node has %v", got)
	}
}

// TestRelease takes a person's annotation off the Node, in one write.
func TestRelease(t *testing.T) {
	f := newFakeAPI(t)
	f.put(kindNode, annotated(map[string][]string{"ids/default/gone": {asks, ofGone}}, asks, ofGone))
	before := f.version
	out, err := f.ids("attach", "node-1", "--wait=false")
	node := &corev1.Node{}
	f.read(kindNode, "node-1", node)
	if err != nil || !strings.Contains(out, "node/node-1 to be attached") || len(node.Annotations) != 1 || f.version != before+1 {
		t.Errorf("%v, %s, %v after %d writes", err, out, node.Annotations, f.version-before)
	}
}
