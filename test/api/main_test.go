// Package api tests the CRD and the admission policies on a real API server.
package api

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
)

const (
	crdFile         = "../../config/crd/ingressdaemonsets.yaml"
	targetGroupFile = "../../config/crd/targetgroupattachments.yaml"
	attachmentFile  = "../../config/crd/attachments.yaml"
	deletionFile    = "../../config/policy/deletion.yaml"
	denyFile        = "../../config/policy/deny.yaml"
	statusFile      = "../../config/policy/status.yaml"
	tenantsFile     = "../../config/policy/tenants.yaml"
	warnFile        = "../../config/policy/warn.yaml"
	exampleFile     = "../../examples/ingressdaemonset.yaml"
)

var (
	resource = v1alpha1.GroupVersion.WithResource("ingressdaemonsets")

	policyFiles = []string{deletionFile, denyFile, statusFile, tenantsFile, warnFile}
	rbacFiles   = []string{"../../config/rbac/controller.yaml", "../../config/rbac/tenants.yaml", "../../config/loadbalancers/rbac.yaml"}

	// All tests share one API server.
	server   *cluster.Cluster
	config   *rest.Config
	client   *dynamic.DynamicClient
	warnings recorder
)

func TestMain(m *testing.M) {
	os.Exit(harness.OnAPIServer("api-test", 0, func(ctx context.Context, c *cluster.Cluster) (int, error) {
		server = c
		if err := connect(); err != nil {
			return 0, err
		}
		if err := install(ctx); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}))
}

func connect() (err error) {
	if config, err = server.RESTConfig(); err != nil {
		return err
	}
	config.QPS, config.WarningHandler = -1, &warnings
	client, err = dynamic.NewForConfig(config)
	return err
}

// install applies the CRD, the roles and the policies. In between it makes an object that
// the policies refuse, as one that is older than they are.
func install(ctx context.Context) error {
	if err := applyFiles(ctx, crdFile, targetGroupFile, attachmentFile); err != nil {
		return err
	}
	older := changed(`{metadata: {name: older, finalizers: [example.com/hold]}}`, pod(`nodeName: a`))
	if err := await.NoError(ctx, func() error {
		_, err := objects().Create(ctx, older, metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("the CRD is not served: %w", err)
	}
	if err := applyFiles(ctx, append(rbacFiles, policyFiles...)...); err != nil {
		return err
	}
	return await.NoError(ctx, func() error {
		refused := attempt(ctx, changed(pod(`nodeName: a`)))
		warned := attempt(ctx, changed(spec(`podsPerNode: 0`)))
		finalized := attempt(ctx, changed(finalizer))
		if refused.err == nil || len(warned.warnings) == 0 || finalized.err == nil {
			return fmt.Errorf("the policies are not in force: %v, %v, %v", refused, warned, finalized)
		}
		return nil
	})
}

// applyFiles leaves out what is of a namespace: nothing runs here.
func applyFiles(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		list, err := read(path)
		if err != nil {
			return err
		}
		mapper, err := mapper()
		if err != nil {
			return err
		}
		for _, object := range list {
			if object.GetNamespace() != "" {
				continue
			}
			gvk := object.GroupVersionKind()
			mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			if err != nil {
				return err
			}
			_, err = client.Resource(mapping.Resource).Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "test"})
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}

func mapper() (meta.RESTMapper, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d)), nil
}

// read gives the objects of a YAML file.
func read(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []*unstructured.Unstructured
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, object)
	}
	return list, nil
}

func objects() dynamic.ResourceInterface { return client.Resource(resource).Namespace("default") }

// answer is what a user sees after an attempt to create or change an object.
type answer struct {
	err      error
	warnings []string
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return strings.Join(a.warnings, "\n")
}

// causes are the single reasons of a refusal.
func (a answer) causes() []metav1.StatusCause {
	status, ok := a.err.(apierrors.APIStatus)
	switch {
	case a.err == nil:
		return nil
	case !ok || status.Status().Details == nil || len(status.Status().Details.Causes) == 0:
		return []metav1.StatusCause{{Message: a.err.Error()}}
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool {
		return strings.Contains(c.Message, "some validation rules were not checked")
	})
}

// attempt creates an object in a dry run, which passes all of admission.
func attempt(ctx context.Context, object *unstructured.Unstructured) answer {
	warnings.take()
	_, err := objects().Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
	return answer{err, warnings.take()}
}

// recorder collects the warnings of the API server.
type recorder struct {
	sync.Mutex
	texts []string
}

func (r *recorder) HandleWarningHeader(code int, _ string, text string) {
	r.Lock()
	defer r.Unlock()
	r.texts = append(r.texts, text)
}

func (r *recorder) take() []string {
	r.Lock()
	defer r.Unlock()
	texts := r.texts
	r.texts = nil
	slices.Sort(texts)
	return texts
}
