package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/identity"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/issuer"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// example reads the class and the IngressDaemonSet of a file of examples/.
func example(t *testing.T, file string) (class networkingv1.IngressClass, set v1alpha1.IngressDaemonSet) {
	t.Helper()
	content, err := os.ReadFile("../../examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	objects := strings.Split(string(content), "\n---\n")
	for i, into := range []any{&class, &set} {
		if err := yaml.UnmarshalStrict([]byte(objects[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	return class, set
}

// TestExample: what the examples say fits to what the proxy and the controller do.
func TestExample(t *testing.T) {
	for _, file := range []string{"proxy.yaml", "proxy-internal.yaml"} {
		t.Run(file, func(t *testing.T) { fits(t, file) })
	}
}

// TestExamplesAgree: the pods of both examples are the same, but for the network that they are on. Each is a file of its
// own, which people copy whole.
func TestExamplesAgree(t *testing.T) {
	_, onHost := example(t, "proxy.yaml")
	_, onPods := example(t, "proxy-internal.yaml")
	if !onHost.Spec.Template.Spec.HostNetwork || onPods.Spec.Template.Spec.HostNetwork {
		t.Error("they are not on the host network and on the pod network")
	}
	onHost.Spec.Template.Spec.HostNetwork = false
	if diff := cmp.Diff(onHost.Spec.Template.Spec, onPods.Spec.Template.Spec); diff != "" {
		t.Errorf("their pods differ (-proxy.yaml +proxy-internal.yaml):\n%s", diff)
	}
}

func fits(t *testing.T, file string) {
	class, set := example(t, file)
	p := class.Spec.Parameters
	if class.Spec.Controller != routing.ControllerName || *p.APIGroup != v1alpha1.Kind.Group || p.Kind != v1alpha1.Kind.Kind ||
		*p.Scope != networkingv1.IngressClassParametersReferenceScopeNamespace || *p.Namespace != set.Namespace || p.Name != set.Name {
		t.Errorf("the class is for %s, by %+v", class.Spec.Controller, p)
	}
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	f, err := parse(container.Args, false, nil)
	if err != nil || container.Command[0] != "/proxy" {
		t.Fatalf("%v is called with wrong flags: %v", container.Command, err)
	}
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace <= f.options.DrainTimeout {
		t.Errorf("it is killed after %s, while it may take %s to end", grace, f.options.DrainTimeout)
	}
	for verb, probe := range map[string]*corev1.Probe{"ready": container.ReadinessProbe, "alive": container.LivenessProbe} {
		command := probe.Exec.Command
		asks, err := parse(command[2:], true, nil)
		if err != nil || !slices.Equal(command[:2], []string{"/proxy", verb}) || asks.readySocket != f.readySocket {
			t.Errorf("the probe is %v: %v", command, err)
		}
	}
	named := func(e corev1.EnvVar) bool {
		return e.Name == "POD_IP" && e.ValueFrom.FieldRef.FieldPath == "status.podIP"
	}
	if f.metricsAddress != "[$(POD_IP)]:9081" || !slices.ContainsFunc(container.Env, named) {
		t.Errorf("metrics are at %s, and not where a Prometheus of the cluster comes, and nobody else", f.metricsAddress)
	}
	mounted := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil && (v.EmptyDir.Medium != corev1.StorageMediumMemory || mounted[v.Name] != f.snapshotDir) {
			t.Errorf("snapshots in %s are not in memory: %+v, at %s", f.snapshotDir, v.EmptyDir, mounted[v.Name])
		}
		if v.Projected == nil {
			continue
		}
		trust, token := v.Projected.Sources[0].ConfigMap, v.Projected.Sources[1].ServiceAccountToken
		if trust.Name != issuer.Name || mounted[v.Name] != f.controllerDir {
			t.Errorf("ConfigMap %s is at %s", trust.Name, mounted[v.Name])
		}
		if token.Audience != identity.Audience || *token.ExpirationSeconds != 600 || mounted[v.Name]+"/"+token.Path != f.tokenFile {
			t.Errorf("the token is %+v, at %s", token, mounted[v.Name])
		}
	}
	// It may bind low ports, and nothing else.
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
	}
	if diff := cmp.Diff(want, container.SecurityContext); diff != "" {
		t.Errorf("the container may (-want +got):\n%s", diff)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod may be as %+v", s)
	}
	if len(mounted) != 2 || len(pod.Volumes) != 2 || *pod.AutomountServiceAccountToken {
		t.Errorf("mounted are %v", mounted)
	}
}
