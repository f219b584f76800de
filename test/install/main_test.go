// Package install installs, upgrades and uninstalls the Helm chart with the real helm, on a real API
// server on which nothing else runs: by the commands of the guide, from the release before, and back.
package install

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
)

const (
	root      = "../.."
	product   = "ingress-daemonset-controller"
	namespace = "ingress-daemonset-system"
	chart     = root + "/charts/" + product
	// before is the chart of the release before: test/chart says how it was made.
	before = root + "/test/chart/testdata/v0.1.0.tgz"
	// another is what a second release is called.
	another = "another"
)

var (
	// All tests share one API server, and begin by emptying it.
	server *cluster.Cluster
	api    *dynamic.DynamicClient

	sets         = v1alpha1.GroupVersion.WithResource("ingressdaemonsets")
	targetGroups = v1alpha1.GroupVersion.WithResource("targetgroupattachments")
	crds         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

func TestMain(m *testing.M) {
	os.Exit(harness.OnAPIServer("install-test", 0, func(ctx context.Context, c *cluster.Cluster) (int, error) {
		server = c
		if err := server.StopControllers(ctx); err != nil {
			return 0, err
		}
		config, err := harness.AdminConfig(server)
		if err != nil {
			return 0, err
		}
		if api, err = dynamic.NewForConfig(config); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}))
}

// empty takes away what another test left. The namespace stays: nothing here would delete what is in it.
func empty(t *testing.T) {
	t.Helper()
	for _, release := range []string{product, another} {
		mustHelm(t, "uninstall", release, "--namespace", namespace, "--ignore-not-found")
	}
	for _, resource := range []schema.GroupVersionResource{sets, targetGroups} {
		list, err := api.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			letGo(t, resource, &list.Items[i])
		}
	}
	kubectl(t, "delete", "deployments,poddisruptionbudgets,networkpolicies", "--all", "--namespace", namespace)
	for _, part := range []string{"crd", "policy", "rbac"} {
		kubectl(t, "delete", "--ignore-not-found", "-k", root+"/config/"+part)
	}
}

// letGo takes an object's finalizers off, as a controller does that has done its part.
func letGo(t *testing.T, resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	t.Helper()
	_, err := api.Resource(resource).Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func tryHelm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	return helm.Run(t.Context(), root, t.TempDir(), []string{"KUBECONFIG=" + server.Kubeconfig()}, arguments...)
}

// mustHelm3 runs Helm 3.
func mustHelm3(t *testing.T, arguments ...string) {
	t.Helper()
	if _, err := helm.Run3(t.Context(), root, t.TempDir(), []string{"KUBECONFIG=" + server.Kubeconfig()}, arguments...); err != nil {
		t.Fatalf("helm 3 %s: %v", strings.Join(arguments, " "), err)
	}
}

func mustHelm(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := tryHelm(t, arguments...)
	if err != nil {
		t.Fatalf("helm %s: %v", strings.Join(arguments, " "), err)
	}
	return out
}

func kubectl(t *testing.T, arguments ...string) {
	t.Helper()
	succeed(t, server.Kubectl(t.Context(), arguments...))
}

func succeed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, out)
	}
}

// documented are the arguments of the guide's command, with further ones.
func documented(t *testing.T, verb string, moves bool, further ...string) []string {
	t.Helper()
	arguments, err := docs.HelmArguments(root, verb, moves)
	if err != nil {
		t.Fatal(err)
	}
	return append(arguments, further...)
}

// create makes an object in the namespace default, when its kind is served.
func create(t *testing.T, resource schema.GroupVersionResource, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetFinalizers([]string{v1alpha1.Finalizer})
	eventually(t, func() (err error) {
		object, err = created(t.Context(), resource, object)
		return err
	})
	return object
}

// created gives the object as it was where it could not be made.
func created(ctx context.Context, resource schema.GroupVersionResource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	made, err := api.Resource(resource).Namespace("default").Create(ctx, object, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		return object, err
	}
	return made, nil
}

// unharmed fails where the object was deleted, or is another one.
func unharmed(t *testing.T, resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	t.Helper()
	now, err := api.Resource(resource).Namespace(object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.GetUID() != object.GetUID() || now.GetDeletionTimestamp() != nil {
		t.Errorf("%s %s was deleted", object.GetKind(), object.GetName())
	}
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	if err := await.NoError(t.Context(), try); err != nil {
		t.Fatal(err)
	}
}
