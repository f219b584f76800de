package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/cluster"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/tools/release/helm"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reader is a user who follows the pages, in a copy of the project.
type reader struct {
	*testing.T
	*harness.Shell
	node  *cluster.Node
	nginx *harness.Fleet
	// pods are those before an upgrade.
	pods map[types.UID]*corev1.Pod
}

func newReader(t *testing.T) *reader {
	t.Helper()
	// Paths of sockets must be short.
	dir, err := os.MkdirTemp("", "ids-docs-")
	if err != nil {
		t.Fatal(err)
	}
	u := &reader{
		T: t, Shell: theHarness.Shell(dir, t.TempDir()), node: theHarness.Nodes()[0],
		nginx: &harness.Fleet{Harness: theHarness, Key: types.NamespacedName{Namespace: "default", Name: "nginx"}},
	}
	// Nothing but a test that was cut short has left the cluster.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		if err := errors.Join(cluster.Down(ctx, filepath.Join(dir, ".cluster")), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	copied := exec.Command("bash", "-c", `tar -C "$1" --exclude=./.git --exclude=./.cluster --exclude=./dist -cf - . | tar -C "$2" -xf -`, "bash", root, u.Dir)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	u.shorten("examples/nginx.yaml")
	if err := os.Symlink(theHarness.Kubectl(t.Context()).Path, filepath.Join(u.Bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + strings.Join(helm.Command(t.Context(), u.Dir).Args, " ") + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(u.Bin, "helm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return u
}

// shorten lets rollouts of an example take seconds. No traffic is sent here.
func (u *reader) shorten(example string) {
	u.Helper()
	file := filepath.Join(u.Dir, example)
	was := string(readFile(u.T, file))
	quick := strings.NewReplacer("gracePeriodSeconds: 10", "gracePeriodSeconds: 1", "terminationGracePeriodSeconds: 300", "terminationGracePeriodSeconds: 5").Replace(was)
	if quick == was {
		u.Fatalf("%s has other durations now", example)
	}
	for _, copied := range []string{file, filepath.Join(u.Dir, filepath.Base(example))} {
		if err := os.WriteFile(copied, []byte(quick), 0o644); err != nil {
			u.Fatal(err)
		}
	}
}

// placeholder is what a reader puts a name of their own for, and no part of another word.
var placeholder = regexp.MustCompile(`\b(NAME|NODE|HOST)\b`)

// followAll runs command lines one after the other.
func (u *reader) followAll(steps []step) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 5*patient)
	defer cancel()
	for _, s := range steps {
		begun := time.Now()
		u.follow(ctx, s)
		u.Logf("%4.0f s  %s", time.Since(begun).Seconds(), s.documented)
	}
}

// follow runs one command line.
func (u *reader) follow(ctx context.Context, s step) {
	u.Helper()
	if s.before != nil {
		s.before(ctx, u)
	}
	line := s.documented
	if s.run != "" {
		line = s.run
	}
	node := u.node.Name()
	if s.inNetwork {
		node = u.node.IP()
	}
	names := map[string]string{"NAME": u.nginx.Key.Name, "NODE": node, "HOST": theHarness.HostIP()}
	line = placeholder.ReplaceAllStringFunc(line, func(name string) string { return names[name] })
	if s.until > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.until)
		defer cancel()
	}
	if s.local {
		line = "unset KUBECONFIG; " + line
	}
	out, err := u.Enter(ctx, s.inNetwork, line)
	switch {
	case s.until > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
	case s.fails != "" && err == nil:
		u.Fatalf("%s succeeded:\n%s", line, out)
	case s.fails == "" && err != nil:
		u.Fatalf("%s: %v\n%s", line, err, out)
	}
	if want := s.says + s.fails; !strings.Contains(out, want) {
		u.Errorf("%s does not say %q but\n%s", line, want, out)
	}
	if strings.Contains(out, "goroutine ") {
		u.Errorf("%s shows a stack:\n%s", line, out)
	}
	if s.after != nil {
		s.after(ctx, u)
	}
}

// must runs a command line that no page shows.
func (u *reader) must(ctx context.Context, line string) {
	u.Helper()
	if out, err := u.Enter(ctx, false, line); err != nil {
		u.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func waitServing(ctx context.Context, u *reader) {
	if err := u.nginx.WaitServing(ctx); err != nil {
		u.Fatal(err)
	}
}

// onLocal goes before what is run on the reader's own cluster.
const onLocal = "export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/.cluster/bin:$PATH; "

// applyToLocal does what the README does after make deploy.
func applyToLocal(ctx context.Context, u *reader) {
	u.must(ctx, "unset KUBECONFIG; "+onLocal+"kubectl apply -f examples/nginx.yaml && kubectl ids rollout status nginx --timeout 3m")
}

// endController ends the controller before its account goes: what it is refused
// would be found in the audit log.
func endController(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl -n ingress-daemonset-system scale deployment ingress-daemonset-controller --replicas=0")
	u.must(ctx, "kubectl -n ingress-daemonset-system wait pod -l app.kubernetes.io/name=ingress-daemonset-controller --for=delete --timeout=2m")
}

// controllerRuns waits until the controller's pods are ready.
func controllerRuns(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl -n ingress-daemonset-system rollout status deployment ingress-daemonset-controller --timeout=3m")
}

// takeOut takes the reader's node out, and leaves it out.
func takeOut(ctx context.Context, u *reader) { u.must(ctx, "kubectl ids detach "+u.node.Name()) }

// answers waits until the health check of the reader's node answers with a status.
func answers(status string) func(context.Context, *reader) {
	return func(ctx context.Context, u *reader) {
		line := "curl -s -o /dev/null -w '%{http_code}' http://" + u.node.IP() + ":10080/"
		if err := harness.Wait(ctx, "the health check to answer "+status, func() (bool, error) {
			out, err := u.Enter(ctx, true, line)
			return out == status, err
		}); err != nil {
			u.Fatal(err)
		}
	}
}

// putBack is after a controller came back that found a node put back without it: it leaves it so.
func putBack(ctx context.Context, u *reader) {
	controllerRuns(ctx, u)
	waitServing(ctx, u)
	if err := u.nginx.CheckUnmarked(ctx); err != nil {
		u.Error(err)
	}
	u.must(ctx, "kubectl ids rollout resume nginx")
	waitServing(ctx, u)
}

// completes asks kubectl, as a shell does, what may follow kubectl ids.
func completes(ctx context.Context, u *reader) {
	if out, err := u.Enter(ctx, false, "kubectl __complete ids rollout hist"); err != nil || !strings.Contains(out, "history") {
		u.Errorf("kubectl does not complete the plugin's commands: %v\n%s", err, out)
	}
}

// stuckInDeletion deletes an IngressDaemonSet that no controller lets go.
func stuckInDeletion(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl delete deployments,daemonsets -l "+v1alpha1.LabelName+"=nginx --wait")
	u.must(ctx, "kubectl apply -f examples/nginx.yaml")
	waitServing(ctx, u)
	endController(ctx, u)
	u.must(ctx, "kubectl delete ids nginx --wait=false")
}

// targetsStuckInDeletion deletes a TargetGroupAttachment that no controller lets go.
func targetsStuckInDeletion(ctx context.Context, u *reader) {
	const object = `{apiVersion: ingressdaemonsets.mumoshu.github.io/v1alpha1, kind: TargetGroupAttachment, ` +
		`metadata: {name: nginx, finalizers: [` + v1alpha1.Finalizer + `]}, ` +
		`spec: {targetGroup: {tags: {ingress: nginx}}, targetType: ip, ingressDaemonSet: {name: nginx}, port: 80}}`
	u.must(ctx, "echo '"+object+"' | kubectl apply -f -")
	u.must(ctx, "kubectl delete tga nginx --wait=false")
}

// kustomize makes the kustomization that the guide shows, of this copy.
func kustomize(ctx context.Context, u *reader) {
	for _, block := range docs.Blocks(string(readFile(u.T, filepath.Join(root, "docs/guides/upgrade-and-uninstall.md"))), "yaml") {
		if !strings.Contains(block, "kind: Kustomization") {
			continue
		}
		block = strings.Replace(block, "https://github.com/mumoshu/ingress-daemonset-controller//config/default?ref=main", "../config/default", 1)
		if err := os.Mkdir(filepath.Join(u.Dir, "mine"), 0o755); err != nil {
			u.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(u.Dir, "mine", "kustomization.yaml"), []byte(block), 0o644); err != nil {
			u.Fatal(err)
		}
		return
	}
	u.Fatal("the guide shows no kustomization")
}

// uninstall leaves nothing of what kubectl installed: helm installs next.
func uninstall(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl -n ingress-daemonset-system rollout status deployment ingress-daemonset-controller --timeout=3m")
	endController(ctx, u)
	for _, part := range []string{"policy", "rbac", "controller", "crd"} {
		u.must(ctx, "kubectl delete --wait -k config/"+part)
	}
}

// serveAgain lets the controller that helm installed roll out proxies.
func serveAgain(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl apply -f examples/nginx.yaml")
	waitServing(ctx, u)
	var err error
	if u.pods, err = u.nginx.Pods(ctx); err != nil {
		u.Fatal(err)
	}
}

// keepsPods is after an upgrade, which restarts no proxy.
func keepsPods(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl -n ingress-daemonset-system rollout status deployment ingress-daemonset-controller --timeout=3m")
	waitServing(ctx, u)
	pods, err := u.nginx.Pods(ctx)
	if err != nil {
		u.Fatal(err)
	}
	for uid := range pods {
		if u.pods[uid] == nil {
			u.Error("the upgrade replaced pods")
		}
	}
}

func endForGood(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl delete ids --all --all-namespaces")
	endController(ctx, u)
}

// keepsCRD is after helm uninstalled.
func keepsCRD(ctx context.Context, u *reader) {
	u.must(ctx, "kubectl get ids --all-namespaces")
	out, err := u.Enter(ctx, false, "kubectl -n ingress-daemonset-system get all -o name")
	if err != nil || strings.Contains(out, "deployment") {
		u.Errorf("left: %s, %v", out, err)
	}
}

// restore leaves the harness as the other tests expect it.
func (u *reader) restore() {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	for _, line := range []string{
		"kubectl delete ids nginx --ignore-not-found",
		"kubectl delete configmap nginx --ignore-not-found",
	} {
		if out, err := u.Enter(ctx, false, line); err != nil {
			u.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if err := theHarness.Deploy(ctx); err != nil {
		u.Error(err)
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
