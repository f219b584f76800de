package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	proxies = `
apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1
kind: IngressDaemonSet
metadata:
  name: proxy
spec:
  podsPerNode: 2
  healthCheckNodePorts: [10080]
  updateStrategy:
    rollingUpdate:
      maxUnavailableNodes: 1
  template:
    metadata:
      labels:
        app: proxy
    spec:
      containers:
      - name: proxy
        image: proxy
`
	targets = `
apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1
kind: TargetGroupAttachment
metadata:
  name: proxy
spec:
  targetGroup:
    tags: {ingress: proxy}
  targetType: ip
  ingressDaemonSet:
    name: proxy
  port: 80
`
)

// installBefore installs the release before, with values as users have them.
var installBefore = []string{
	"install", product, before, "--namespace", namespace, "--create-namespace",
	"--set", "image.repository=registry.example/ids,image.tag=v1,replicas=3,imagePullSecrets[0]=registry",
}

// kinds are those of the CRDs.
var kinds = []string{"ingressdaemonsets", "targetgroupattachments", "attachments"}

// TestUpgrade goes from the release before to this chart, and back, and to it again, by the commands of
// the guide: whether the release was made by Helm 4 or by Helm 3.
func TestUpgrade(t *testing.T) {
	for name, install := range map[string]func(*testing.T, ...string){
		"Helm 4": func(t *testing.T, arguments ...string) { mustHelm(t, arguments...) }, "Helm 3": mustHelm3,
	} {
		t.Run(name, func(t *testing.T) {
			empty(t)
			install(t, installBefore...)
			applyCRDs(t)
			set := create(t, sets, proxies)
			_, err := tryHelm(t, documented(t, "upgrade", false)...)
			if err == nil || !strings.Contains(err.Error(), "cannot be imported into the current release") {
				t.Errorf("CRDs of nobody are taken over: %v", err)
			}
			runs(t, "registry.example/ids:v1")

			mustHelm(t, documented(t, "upgrade", true)...)
			runs(t, "registry.example/ids:v2")
			ownsCRDs(t)
			mustHelm(t, documented(t, "rollback", false)...)
			runs(t, "registry.example/ids:v1")
			ownsCRDs(t)
			mustHelm(t, documented(t, "upgrade", false)...)
			runs(t, "registry.example/ids:v2")
			ownsCRDs(t)
			mustHelm(t, documented(t, "upgrade", false, "--set", "image.tag=v3")...)
			runs(t, "registry.example/ids:v3")
			keepsValues(t)
			unharmed(t, sets, set)
		})
	}
}

// TestUpgradeByHelm3 goes the same way with Helm 3, whose command has one flag more in the first upgrade.
func TestUpgradeByHelm3(t *testing.T) {
	empty(t)
	mustHelm3(t, installBefore...)
	applyCRDs(t)
	set := create(t, sets, proxies)
	mustHelm3(t, documented(t, "upgrade", false, "--take-ownership")...)
	runs(t, "registry.example/ids:v2")
	ownsCRDs(t)
	mustHelm3(t, documented(t, "rollback", false)...)
	runs(t, "registry.example/ids:v1")
	ownsCRDs(t)
	mustHelm3(t, documented(t, "upgrade", false, "--set", "image.tag=v3")...)
	runs(t, "registry.example/ids:v3")
	ownsCRDs(t)
	keepsValues(t)
	unharmed(t, sets, set)
	mustHelm3(t, documented(t, "uninstall", false, "--wait", "--timeout", "60s")...)
	unharmed(t, sets, set)
}

// TestUpgradeToTheReleasesImage: where the values name no tag, the upgrade need not either: the image is
// that of the release.
func TestUpgradeToTheReleasesImage(t *testing.T) {
	empty(t)
	dir := t.TempDir()
	mustHelm(t, "package", chart, "--version", "9.9.9", "--app-version", "v9.9.9", "--destination", dir)
	mustHelm(t, "install", product, before, "--namespace", namespace, "--create-namespace", "--set", "image.repository=registry.example/ids")
	runs(t, "registry.example/ids:v0.1.0")
	command := slices.DeleteFunc(documented(t, "upgrade", true), func(a string) bool { return a == "--set" || a == "image.tag=v2" })
	command[slices.Index(command, chart)] = filepath.Join(dir, product+"-9.9.9.tgz")
	mustHelm(t, command...)
	runs(t, "registry.example/ids:v9.9.9")
}

// TestInstallOverKubectl: helm takes over what kubectl has installed, as the guide says.
func TestInstallOverKubectl(t *testing.T) {
	empty(t)
	kubectl(t, "apply", "--server-side", "-k", root+"/config/default")
	set := create(t, sets, proxies)
	if _, err := tryHelm(t, documented(t, "install", false)...); err == nil {
		t.Error("helm takes over what is not its own without being told to")
	}
	mustHelm(t, documented(t, "install", false, "--take-ownership", "--force-conflicts")...)
	runs(t, "registry.example.com/ingress-daemonset-controller:v1")
	ownsCRDs(t)
	// What both wrote is kubectl's too.
	upgrade := documented(t, "upgrade", false, "--set", "replicas=3")
	if _, err := tryHelm(t, upgrade...); err == nil || !strings.Contains(err.Error(), `with "kubectl"`) {
		t.Errorf("helm changes what kubectl wrote without being told to: %v", err)
	}
	mustHelm(t, append(upgrade, "--force-conflicts")...)
	runs(t, "registry.example.com/ingress-daemonset-controller:v2")
	unharmed(t, sets, set)
}

// TestCRDsOfOthers: crds.install leaves the CRDs to who installed them.
func TestCRDsOfOthers(t *testing.T) {
	empty(t)
	kubectl(t, "apply", "--server-side", "-k", root+"/config/crd")
	mustHelm(t, documented(t, "install", false, "--set", "crds.install=false")...)
	for _, kind := range kinds {
		if owner := readCRD(t, kind).GetAnnotations()["meta.helm.sh/release-name"]; owner != "" {
			t.Errorf("the CRD of %s belongs to %s", kind, owner)
		}
	}
}

// TestCRDsAreLeft: a release that is told to install no CRDs any more leaves those that it has.
func TestCRDsAreLeft(t *testing.T) {
	empty(t)
	mustHelm(t, documented(t, "install", false)...)
	set := create(t, sets, proxies)
	mustHelm(t, documented(t, "upgrade", false, "--set", "crds.install=false")...)
	ownsCRDs(t)
	unharmed(t, sets, set)
}

// TestValuesAreAccepted: the API server takes what test/chart renders with everything set, with what can be
// chosen instead, and with as little as can be. It knows no objects of the Prometheus operator.
func TestValuesAreAccepted(t *testing.T) {
	for _, values := range []string{"everything", "alternatives", "least"} {
		t.Run(values, func(t *testing.T) {
			empty(t)
			mustHelm(t, "install", product, chart, "--namespace", namespace, "--create-namespace",
				"--values", root+"/test/chart/testdata/"+values+".values.yaml",
				"--set", "podMonitor.enabled=false,serviceMonitor.enabled=false,prometheusRule.enabled=false,dashboard.namespace=default")
		})
	}
}

// applyCRDs brings the CRDs up to date as the guide of v0.1.0 says, with the chart of that: another than
// helm has then written all of their fields.
func applyCRDs(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	succeed(t, exec.CommandContext(t.Context(), "tar", "-xzf", before, "-C", dir))
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(dir, product, "crds"))
}

// keepsValues fails where values that were chosen once are lost.
func keepsValues(t *testing.T) {
	t.Helper()
	deployment := readDeployment(t)
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	secrets, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "imagePullSecrets")
	if diff := cmp.Diff([]any{map[string]any{"name": "registry"}}, secrets); replicas != 3 || diff != "" {
		t.Errorf("%d replicas, not 3; secrets (-chosen +used) %s", replicas, diff)
	}
}

func readDeployment(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	deployment, err := api.Resource(deployments).Namespace(namespace).Get(t.Context(), product, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return deployment
}

// runs fails where the controller and the health checkers do not have the image.
func runs(t *testing.T, image string) {
	t.Helper()
	deployment := readDeployment(t)
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%v, %v", containers, err)
	}
	controller := containers[0].(map[string]any)
	variables, _, _ := unstructured.NestedSlice(controller, "env")
	checker := slices.IndexFunc(variables, func(v any) bool { return v.(map[string]any)["name"] == "HEALTHCHECKER_IMAGE" })
	if checker < 0 || controller["image"] != image || variables[checker].(map[string]any)["value"] != image {
		t.Errorf("the controller's image is %v, the health checkers' in %v, want %s", controller["image"], variables, image)
	}
}

// ownsCRDs fails where the CRDs are not those of this version, the release's, and kept.
func ownsCRDs(t *testing.T) {
	t.Helper()
	for _, kind := range kinds {
		live := readCRD(t, kind)
		annotations := live.GetAnnotations()
		if annotations["meta.helm.sh/release-name"] != product || annotations["helm.sh/resource-policy"] != "keep" || live.GetDeletionTimestamp() != nil {
			t.Errorf("the CRD of %s is not the release's, or not kept: %v", kind, annotations)
		}
		content, err := os.ReadFile(filepath.Join(root, "config", "crd", kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var file map[string]any
		if err := yaml.Unmarshal(content, &file); err != nil {
			t.Fatal(err)
		}
		want, err := schemaOf(file)
		got, failed := schemaOf(live.Object)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the CRD of %s (-config/crd +installed)\n%.2000s", kind, diff)
		}
	}
}

func readCRD(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	live, err := api.Resource(crds).Get(t.Context(), kind+".ingressdaemonsets.mumoshu.github.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// schemaOf is the schema of a CRD's only version, with numbers as JSON has them.
func schemaOf(crd map[string]any) (out map[string]any, err error) {
	versions, _ := crd["spec"].(map[string]any)["versions"].([]any)
	if len(versions) != 1 {
		return nil, fmt.Errorf("%d versions", len(versions))
	}
	text, err := json.Marshal(versions[0].(map[string]any)["schema"])
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}
