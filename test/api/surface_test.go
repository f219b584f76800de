package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

var (
	createOptions = metav1.CreateOptions{FieldValidation: "Strict"}
	updateOptions = metav1.UpdateOptions{FieldValidation: "Strict"}
)

// TestExample applies the source document's example as it stands. Nothing of it
// is lost, the labels and annotations of the template included.
func TestExample(t *testing.T) {
	example := files(t, exampleFile)[0]
	warnings.take()
	stored, err := objects().Apply(t.Context(), example.GetName(), example, metav1.ApplyOptions{FieldManager: "user"})
	if err != nil {
		t.Fatal(err)
	}
	remove(t, stored)
	want := delivered(
		"maxDegradedNodes 3 is not used, because maxUnavailableNodes detaches nodes: remove one of the two",
		"maxUnavailablePodsPerNode 3 is not used: all pods of a detached node are replaced at once, which is 100%",
		"the ports of host-network pods are not declared to the API server, so that pods can share them: Services and NetworkPolicies must use their numbers, not their names, and the pods must listen with SO_REUSEPORT",
	)
	if got := warnings.take(); !slices.Equal(got, want) {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var written, read v1alpha1.IngressDaemonSet
	convert(t, example, &written)
	convert(t, stored, &read)
	// The only default that the CRD takes over from Kubernetes' own types.
	for i := range written.Spec.Template.Spec.Containers[0].Ports {
		written.Spec.Template.Spec.Containers[0].Ports[i].Protocol = corev1.ProtocolTCP
	}
	if diff := cmp.Diff(written.Spec, read.Spec); diff != "" {
		t.Errorf("changed by the API server:\n%s", diff)
	}
}

// TestOlderObject is about an object that is refused by policies newer than it:
// it can be labelled and deleted, but not changed to something refused.
func TestOlderObject(t *testing.T) {
	patch := func(text string, dryRun ...string) error {
		_, err := objects().Patch(t.Context(), "older", types.MergePatchType, toJSON(text), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
	if err := patch(`{metadata: {labels: {a: b}}}`); err != nil {
		t.Error(err)
	}
	err := patch(spec(`podsPerNode: 3`))
	if want := "spec.template.spec.nodeName is set by the controller"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := objects().Delete(t.Context(), "older", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	// A dry run, so that the object is there when the test runs again.
	if err := patch(`{metadata: {finalizers: null}}`, metav1.DryRunAll); err != nil {
		t.Error(err)
	}
}

// TestNames shows under which names kubectl finds the kind. There is no scale:
// podsPerNode is not the number of replicas that an autoscaler means.
func TestNames(t *testing.T) {
	list, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
		if r.Name != "ingressdaemonsets" {
			continue
		}
		if !r.Namespaced || r.Kind != "IngressDaemonSet" || !slices.Equal(r.ShortNames, []string{"ids"}) || !slices.Equal(r.Categories, []string{"all"}) {
			t.Errorf("got %+v", r)
		}
	}
	slices.Sort(names)
	if want := []string{
		"attachments", "attachments/status", "ingressdaemonsets", "ingressdaemonsets/status", "targetgroupattachments", "targetgroupattachments/status",
	}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// TestStatus shows that the spec and the status are written separately.
func TestStatus(t *testing.T) {
	object := create(t, "status")
	set(t, object, int64(5), "spec", "podsPerNode")
	set(t, object, map[string]any{"desiredNodes": int64(3), "servingNodes": int64(2), "degradedNodes": int64(1),
		"unavailableNodes": int64(1), "updatedNodes": int64(1)}, "status")

	object, err := objects().UpdateStatus(t.Context(), object, updateOptions)
	if err != nil {
		t.Fatal(err)
	}
	if got := number(object, "spec", "podsPerNode"); got != 2 {
		t.Errorf("podsPerNode is %d after an update of the status, want 2", got)
	}
	set(t, object, int64(4), "spec", "podsPerNode")
	set(t, object, int64(9), "status", "desiredNodes")
	object, err = objects().Update(t.Context(), object, updateOptions)
	if err != nil {
		t.Fatal(err)
	}
	if pods, desired := number(object, "spec", "podsPerNode"), number(object, "status", "desiredNodes"); pods != 4 || desired != 3 {
		t.Errorf("podsPerNode %d, desiredNodes %d after an update of the spec, want 4 and 3", pods, desired)
	}
	if got := object.GetGeneration(); got != 2 {
		t.Errorf("generation %d, want 2: only the spec counts", got)
	}
}

// TestUnobserved shows that an object which no controller has seen says so: tools that compare what was
// observed with what is written take it for current otherwise.
func TestUnobserved(t *testing.T) {
	const attachment = "{apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1, kind: Attachment, metadata: {name: unobserved}, spec: {wanted: Detached}}"
	ours := func(plural string) dynamic.NamespaceableResourceInterface {
		return client.Resource(v1alpha1.GroupVersion.WithResource(plural))
	}
	for name, c := range map[string]struct {
		kind   dynamic.ResourceInterface
		object *unstructured.Unstructured
	}{
		"IngressDaemonSet":      {objects(), changed(`{metadata: {name: unobserved}}`)},
		"TargetGroupAttachment": {ours("targetgroupattachments").Namespace("default"), patched(targetGroup, `{metadata: {name: unobserved}}`)},
		"Attachment":            {ours("attachments"), patched(attachment)},
	} {
		created, err := c.kind.Create(t.Context(), c.object, createOptions)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := c.kind.Get(t.Context(), "unobserved", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []*unstructured.Unstructured{created, stored} {
			if got := number(object, "status", "observedGeneration"); got != -1 {
				t.Errorf("%s: observedGeneration is %d", name, got)
			}
		}
		if err := c.kind.Delete(t.Context(), "unobserved", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestColumns shows what `kubectl get ids -o wide` prints.
func TestColumns(t *testing.T) {
	object := create(t, "columns")
	set(t, object, map[string]any{"desiredNodes": int64(5), "servingNodes": int64(4), "degradedNodes": int64(0),
		"unavailableNodes": int64(1), "updatedNodes": int64(2), "updateRevision": "columns-abc", "conditions": []any{
			map[string]any{"type": "Progressing", "status": "True", "reason": "RollingOut", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
			map[string]any{"type": "Blocked", "status": "True", "reason": "FloorReached", "message": "too few would serve", "lastTransitionTime": "2026-01-02T03:04:05Z"},
		}}, "status")
	if _, err := objects().UpdateStatus(t.Context(), object, updateOptions); err != nil {
		t.Fatal(err)
	}
	table := tableOf(t, "columns")
	var headers []string
	for _, c := range table.ColumnDefinitions {
		if c.Priority > 0 {
			c.Name += " (wide)"
		}
		headers = append(headers, c.Name)
	}
	if want := []string{"Name", "Desired", "Serving", "Updated", "Unavailable", "Rollout", "Revision (wide)", "Images (wide)", "Age", "Blocked"}; !slices.Equal(headers, want) {
		t.Errorf("got %q, want %q", headers, want)
	}
	cells := table.Rows[0].Cells
	if diff := cmp.Diff([]any{"columns", 5., 4., 2., 1., "RollingOut", "columns-abc", "proxy"}, cells[:8]); diff != "" || cells[9] != "too few would serve" {
		t.Error(diff, cells)
	}
}

func tableOf(t *testing.T, name string) metav1.Table {
	t.Helper()
	d := discovery.NewDiscoveryClientForConfigOrDie(config)
	data, err := d.RESTClient().Get().
		AbsPath("/apis", v1alpha1.GroupVersion.String(), "namespaces/default/ingressdaemonsets", name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	return table
}

// create stores base under a name until the test ends.
func create(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := objects().Create(t.Context(), changed(`{metadata: {name: `+name+`}}`), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, object)
	return object
}

func remove(t *testing.T, object *unstructured.Unstructured) {
	t.Cleanup(func() {
		if err := objects().Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func set(t *testing.T, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func number(object *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(object.Object, path...)
	return n
}
