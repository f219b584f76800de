package kubectl

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestArguments: under its second name the program completes, as kubectl expects it of that.
func TestArguments(t *testing.T) {
	for called, want := range map[string]string{
		"/usr/local/bin/kubectl-ids status nginx": "status nginx", "kubectl-ids": "", "./kubectl_complete-ids rollout st": "__complete rollout st",
		"kubectl_complete-ids.exe status": "__complete status", "kubectl_complete-ids": "__complete", "/kubectl_complete-ids/kubectl-ids list": "list",
	} {
		if got := strings.Join(Arguments(strings.Fields(called)), " "); got != want {
			t.Errorf("%s: %q, want %q", called, got, want)
		}
	}
	if got := Arguments([]string{"kubectl_complete-ids", ""}); !slices.Equal(got, []string{"__complete", ""}) {
		t.Errorf("%q", got)
	}
}

// TestCompletion gives what kubectl shows in a shell: one word a line, and a directive last.
func TestCompletion(t *testing.T) {
	f := newFakeAPI(t)
	f.putFleet(midway(), onNodes(2, "aaaaaaaaaa"))
	f.put(kindDaemonSet, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "envoy", Namespace: "default"}})
	f.put(kindNode, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-9"}})
	for words, want := range map[string]string{
		"rollout st":      "status",
		"status ":         "nginx",
		"explain nginx ":  "node-1 node-2 node-9",
		"detach ":         "node-1 node-2 node-9",
		"from ":           "daemonset/envoy daemonset/nginx-0 deployment/nginx-node-1 deployment/nginx-node-2",
		"list ":           "",
		"help rollout re": "restart resume retry",
		"help ver":        "version",
		"set im":          "image",
	} {
		// Words are split at each space; what is to be completed may be nothing yet.
		args := append([]string{"__complete", "--server", f.url, "--kubeconfig", "/dev/null", "-n", "default"}, strings.Split(words, " ")...)
		out, err := f.run(args)
		if err != nil {
			t.Errorf("%q: %v", words, err)
			continue
		}
		last := args[len(args)-1]
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if !strings.HasPrefix(word, ":") && strings.HasPrefix(word, last) {
				got = append(got, word)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || !strings.Contains(out, "\n:4\n") && !strings.HasPrefix(out, ":4\n") {
			t.Errorf("%q: %q, want %q, in\n%s", words, got, want, out)
		}
	}
}
