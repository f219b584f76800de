package controller

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kubectl"
)

// ids runs kubectl ids and gives what it printed.
func (f *fixture) ids(args ...string) (string, error) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	c := kubectl.NewCommand(streams, "v0")
	flags := []string{"--kubeconfig", theCluster.Kubeconfig(), "-n", f.ns}
	if args[0] == "__complete" {
		// What is to be completed comes last.
		args, flags = append([]string{"__complete"}, flags...), args[1:]
	}
	c.SetArgs(append(args, flags...))
	err := c.ExecuteContext(f.Context())
	return out.String(), err
}

// manifest writes an IngressDaemonSet with changes into a file.
func (f *fixture) manifest(set *v1alpha1.IngressDaemonSet, changes ...change) string {
	f.Helper()
	set = &v1alpha1.IngressDaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "IngressDaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: set.Name}, Spec: *set.Spec.DeepCopy(),
	}
	for _, c := range changes {
		c(set)
	}
	content, err := yaml.Marshal(set)
	f.must(err)
	file := filepath.Join(f.TempDir(), "set.yaml")
	f.must(os.WriteFile(file, content, 0o644))
	return file
}

// says fails the test unless the command succeeds and prints all of that.
func (f *fixture) says(wanted []string, args ...string) {
	f.Helper()
	out, err := f.ids(args...)
	for _, w := range wanted {
		if err != nil || !strings.Contains(out, w) {
			f.Errorf("kubectl ids %s: %v, no %q in:\n%s", strings.Join(args, " "), err, w, out)
		}
	}
}

// refuses fails the test unless the command fails with that.
func (f *fixture) refuses(wanted string, args ...string) {
	f.Helper()
	if out, err := f.ids(args...); err == nil || !strings.Contains(err.Error(), wanted) {
		f.Errorf("kubectl ids %s: %v, want %q; it printed:\n%s", strings.Join(args, " "), err, wanted, out)
	}
}

// TestKubectl sees and steers a rollout as an operator does.
func TestKubectl(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	set := f.create("proxy", version("v1"))
	f.complete(set)
	f.says([]string{"IngressDaemonSet " + f.ns + "/proxy", "2 desired, 2 serving", "2 of 2", "Progressing=True", "Complete"}, "status", "proxy")
	f.says([]string{"It serves.", "proxy-" + f.nodes[0], "ready"}, "explain", "proxy", f.nodes[0])

	f.change(set, version("v2"))
	f.says([]string{"successfully rolled out: 2 of 2"}, "rollout", "status", "proxy", "--timeout", "2m")
	f.says([]string{"proxy:v1", "proxy:v2   ", "the present template"}, "rollout", "history", "proxy")
	f.says([]string{"image: proxy:v1"}, "rollout", "history", "proxy", "--revision", "1")

	f.says([]string{"proxy rolled back to revision 1"}, "rollout", "undo", "proxy")
	f.says([]string{"successfully rolled out"}, "rollout", "status", "proxy")
	if f.read(set); set.Spec.Template.Spec.Containers[0].Image != "proxy:v1" || set.Status.UpdatedNodes != 2 {
		t.Errorf("after undo: %s, %d nodes updated", set.Spec.Template.Spec.Containers[0].Image, set.Status.UpdatedNodes)
	}
	// What is brought back is the newest, and what it replaced the one before it.
	f.says([]string{"image: proxy:v1"}, "rollout", "history", "proxy", "--revision", "3")
	f.refuses("unable to find revision 1", "rollout", "history", "proxy", "--revision", "1")

	f.says([]string{"proxy paused"}, "rollout", "pause", "proxy")
	f.change(set, version("v3"))
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonPaused)
	f.says([]string{"2 nodes would not get the revision: spec.paused is set"}, "plan", "proxy")
	f.says([]string{"2 nodes would not get the revision"}, "plan", "proxy", "--revision", "2")
	f.says([]string{"WAVE", "1      0s", f.nodes[0], f.nodes[1], "It would take"}, "plan", "proxy", "-f", f.manifest(set, version("v9"), func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Paused = false
	}))
	f.refuses(`it holds no IngressDaemonSet "proxy", but IngressDaemonSet "other"`, "plan", "proxy", "-f", f.manifest(set, func(set *v1alpha1.IngressDaemonSet) { set.Name = "other" }))
	f.refuses("podsPerNode", "plan", "proxy", "-f", f.manifest(set, func(set *v1alpha1.IngressDaemonSet) { set.Spec.PodsPerNode = new(int32(-1)) }))
	f.says([]string{"It waits for its turn"}, "explain", "proxy", f.nodes[1])
	f.refuses("can't restart a paused", "rollout", "restart", "proxy")
	f.says([]string{"proxy resumed"}, "rollout", "resume", "proxy")
	f.complete(set)
	f.says([]string{"proxy restarted"}, "rollout", "restart", "proxy")
	f.complete(set)
	if set.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Error("restart left no trace")
	}

	f.says([]string{f.nodes[0] + " of ingressdaemonset.ingressdaemonsets.mumoshu.github.io/proxy detached"}, "detach", f.nodes[0])
	if d := f.deployment(set, f.nodes[0]); !marked(d) {
		t.Errorf("%s is detached and not marked", d.Name)
	}
	f.says([]string{"It is Detached", "somebody wants it out"}, "explain", "proxy", f.nodes[0])
	f.refuses("which uses up the budget", "detach", f.nodes[1])
	f.refuses(`no IngressDaemonSet runs on node "nowhere"`, "detach", "nowhere")
	f.says([]string{"proxy attached"}, "attach", f.nodes[0])
	f.complete(set)

	f.says([]string{"proxy\n"}, "__complete", "rollout", "status", "")
	f.says([]string{f.nodes[0] + "\n", f.nodes[1] + "\n"}, "__complete", "explain", "proxy", "")

	out, err := f.ids("status", "proxy", "-o", "json")
	var read v1alpha1.IngressDaemonSet
	if f.must(err); json.Unmarshal([]byte(out), &read) != nil || read.Kind != "IngressDaemonSet" || read.UID != set.UID {
		t.Errorf("as JSON:\n%s", out)
	}
	f.refuses(`"other" not found`, "status", "other")
	f.refuses(`"nowhere" not found`, "explain", "proxy", "nowhere")
	f.refuses("unable to find revision 99", "rollout", "undo", "proxy", "--to-revision", "99")
	f.refuses("allowed formats are", "status", "proxy", "-o", "xml")
	f.refuses("nothing to promote", "rollout", "promote", "proxy")
}

// TestKubectlAsTenant goes no further than its user may: back to a template that is for other
// nodes too takes the right to detach them.
func TestKubectlAsTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	const user = "a-tenant-of-kubectl"
	everything := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "everything"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	f.must(api.Create(t.Context(), everything))
	f.must(api.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: everything.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	set := f.create("proxy", func(set *v1alpha1.IngressDaemonSet) {
		set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	})
	f.complete(set)
	f.change(set, version("v2"), func(set *v1alpha1.IngressDaemonSet) { set.Spec.Template.Spec.Tolerations = nil })
	f.complete(set)
	f.eventually("the tenant pauses", func() error {
		_, err := f.ids("rollout", "pause", "proxy", "--as", user)
		return err
	})
	f.refuses("needed in the whole cluster is the verb detach on nodes, for the choice of nodes", "rollout", "undo", "proxy", "--as", user)
	f.says([]string{"proxy rolled back to revision 1"}, "rollout", "undo", "proxy")
}
