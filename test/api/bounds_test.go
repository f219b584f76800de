package api

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// longest is the greatest bound of a duration, in seconds.
const longest = 86400

// TestEveryDurationHasABound: whoever may write our kinds holds no node for longer than a day
// by one field.
func TestEveryDurationHasABound(t *testing.T) {
	found := 0
	for _, file := range []string{crdFile, targetGroupFile, attachmentFile} {
		durations(schemaOf(t, file), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
			found++
			if s.Minimum == nil || s.Maximum == nil || *s.Maximum > longest {
				t.Errorf("%s: %s is not bounded from below, and by %d or less", file, path, longest)
			}
		})
	}
	if found < 13 {
		t.Errorf("only %d durations are found", found)
	}
}

// durations visits what a schema gives in seconds, but for what is Kubernetes': the template and
// the tolerations of health checkers.
func durations(s apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	if s.Items != nil && s.Items.Schema != nil {
		durations(*s.Items.Schema, path+"[]", visit)
	}
	for name, property := range s.Properties {
		switch at := path + "." + name; {
		case at == ".spec.template", at == ".spec.healthChecker.tolerations":
		case strings.HasSuffix(name, "Seconds"):
			visit(at, &property)
			s.Properties[name] = property
		default:
			durations(property, at, visit)
		}
	}
}

// TestNewBoundsLetOldObjectsBe has an object that is older than the bounds: it can be changed
// otherwise, and what is above a bound can be lowered, but not raised.
func TestNewBoundsLetOldObjectsBe(t *testing.T) {
	const group = "bounds.example.com"
	var crd apiextensionsv1.CustomResourceDefinition
	convert(t, files(t, crdFile)[0], &crd)
	crd.Name, crd.Spec.Group = crd.Spec.Names.Plural+"."+group, group
	crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = nil, nil
	bounded := crd.DeepCopy()
	durations(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "", func(_ string, s *apiextensionsv1.JSONSchemaProps) { s.Maximum = nil })
	apply := func(crd *apiextensionsv1.CustomResourceDefinition) {
		t.Helper()
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(content, "status")
		definitions := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
		if _, err := definitions.Apply(t.Context(), crd.Name, &unstructured.Unstructured{Object: content}, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	apply(&crd)
	old := client.Resource(schema.GroupVersionResource{Group: group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}).Namespace("default")
	object := changed(`{apiVersion: `+group+`/`+crd.Spec.Versions[0].Name+`}`, spec(`progressDeadlineSeconds: 100000`), rolling(`detachTimeoutSeconds: 100000`))
	if err := await.NoError(t.Context(), func() error {
		_, err := old.Create(t.Context(), object, createOptions)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}) })
	apply(bounded)
	patch := func(text string, subresources ...string) error {
		_, err := old.Patch(t.Context(), object.GetName(), types.MergePatchType, toJSON(text), metav1.PatchOptions{}, subresources...)
		return err
	}
	another := object.DeepCopy()
	another.SetName("another")
	if err := await.NoError(t.Context(), func() error {
		if _, err := old.Create(t.Context(), another, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return errors.New("the bounds are not in force")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, patch, subresource, refused string }{
		{"a label", `{metadata: {labels: {a: b}}}`, "", ""},
		{"another field", spec(`podsPerNode: 3`), "", ""},
		{"a field beside", rolling(`partition: 1`), "", ""},
		{"the status", `{status: {desiredNodes: 3, servingNodes: 3, degradedNodes: 0, unavailableNodes: 0, updatedNodes: 3}}`, "status", ""},
		{"more", spec(`progressDeadlineSeconds: 100001`), "", "spec.progressDeadlineSeconds"},
		{"less", spec(`progressDeadlineSeconds: 86400`), "", ""},
		{"more again", spec(`progressDeadlineSeconds: 86401`), "", "spec.progressDeadlineSeconds"},
	} {
		var subresources []string
		if c.subresource != "" {
			subresources = []string{c.subresource}
		}
		err := patch(c.patch, subresources...)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
	}
}
