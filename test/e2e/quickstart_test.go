package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

// quickstartSays is what command lines of the page must print; all must succeed.
var quickstartSays = map[string]string{
	"kubectl get nodes": "Ready",
	"make push IMAGE=$REGISTRY/ingress-daemonset-controller:v1":   "pushed ",
	"make image IMAGE=$REGISTRY/ingress-daemonset-controller:v1":  "/ingress/ingress-daemonset-controller:v1, for docker load",
	"make deploy IMAGE=$REGISTRY/ingress-daemonset-controller:v1": "successfully rolled out",
	"kubectl ids version":              "Controller:",
	"kubectl ids rollout status nginx": "successfully rolled out",
	"kubectl ids status nginx":         "3 desired, 3 serving",
	"curl -si http://$NODE/":           "200 OK",
	"curl -si http://$NODE:10080/":     "200 OK",
	"kubectl delete -k config/default": "deleted",
}

// TestQuickstart follows docs/quickstart.md from its first line to its last, in a copy of the project, with a
// registry from which the nodes then pull. docs.Instead says which lines are replaced.
func TestQuickstart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	const page = "docs/quickstart.md"
	said := map[string]string{}
	u := newReader(t)
	t.Cleanup(u.restore)
	// What the tests share has these too, and restore looks for objects of theirs.
	t.Cleanup(func() { u.must(context.WithoutCancel(ctx), "kubectl apply --server-side -k config/crd") })
	for _, line := range docs.PlayedCommands(page, string(readFile(t, filepath.Join(root, page)))) {
		begun := time.Now()
		said[line] = u.enter(ctx, line)
		t.Logf("%4.0f s  %s", time.Since(begun).Seconds(), line)
	}
	for line, want := range quickstartSays {
		if !strings.Contains(said[line], want) {
			t.Errorf("%s does not say %q but\n%s", line, want, said[line])
		}
	}
}

// enter runs a line of a page, or what is run in its place, and gives what it printed.
func (u *reader) enter(ctx context.Context, line string) string {
	u.Helper()
	run := line
	if instead, replaced := docs.Instead[line]; replaced {
		run = strings.ReplaceAll(instead.Run, "HOST", theHarness.HostIP())
	}
	if run == "" {
		return ""
	}
	if strings.HasPrefix(run, "kubectl delete -k") {
		endController(ctx, u)
	}
	out, err := u.Enter(ctx, docs.ReachesNodes(run), run)
	if err != nil {
		u.Fatalf("%s: %v\n%s", run, err, out)
	}
	if strings.Contains(out, "goroutine ") {
		u.Errorf("%s shows a stack:\n%s", run, out)
	}
	return out
}
