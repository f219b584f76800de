package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manifest are the objects of one file.
type Manifest []*unstructured.Unstructured

// Example reads a file of examples/.
func (s *Harness) Example(name string) (Manifest, error) {
	data, err := os.ReadFile(filepath.Join(s.root, "examples", name))
	if err != nil {
		return nil, err
	}
	return ParseManifest(data)
}

// ParseManifest reads objects from YAML documents.
func ParseManifest(data []byte) (Manifest, error) {
	var out Manifest
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading the manifest: %w", err)
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

// Kind is the first object of a kind; the tests know that there is one.
func (m Manifest) Kind(kind string) *unstructured.Unstructured {
	for _, obj := range m {
		if obj.GetKind() == kind {
			return obj
		}
	}
	return nil
}

// Apply applies the objects in order, to a namespace those that have one.
func (s *Harness) Apply(ctx context.Context, namespace string, m Manifest) error {
	for _, obj := range m {
		sent := obj.DeepCopy()
		namespaced, err := s.IsObjectNamespaced(sent)
		if err != nil {
			return fmt.Errorf("asking whether a %s has a namespace: %w", obj.GetKind(), err)
		}
		if namespaced {
			sent.SetNamespace(namespace)
		}
		err = s.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner("harness"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// MakeNamespace creates a namespace.
func (s *Harness) MakeNamespace(ctx context.Context, name string) error {
	return s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// RemoveNamespace deletes a namespace and waits until it is gone with all its pods.
func (s *Harness) RemoveNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(s.Delete(ctx, ns)); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return Wait(ctx, "namespace "+name+" to be gone", func() (bool, error) {
		err := s.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Wait calls done a few times a second until it is true or ctx is over. Errors
// are only told when time is over: an API server may be away for a while.
func Wait(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, ctx.Err()), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// AdjustSet changes the manifest's IngressDaemonSet.
func (m Manifest) AdjustSet(adjust func(*v1alpha1.IngressDaemonSet)) error {
	obj := m.Kind(v1alpha1.Kind.Kind)
	set := &v1alpha1.IngressDaemonSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
		return fmt.Errorf("reading the IngressDaemonSet: %w", err)
	}
	adjust(set)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	obj.Object = content
	return err
}
