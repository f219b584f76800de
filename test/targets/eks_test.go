package targets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cli"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
)

const (
	root    = "../.."
	eksPage = "docs/guides/eks.md"
	// ofGuide is a label of the nodes that the page's IngressDaemonSets are for.
	ofGuide = "example.com/eks"
	// takeDown is the last section of the page, which removes what the others made.
	takeDown = "Take it down"
	// podsGroup is the group of the page whose targets have addresses that nothing listens at here.
	podsGroup = "ingress-pods"
)

// TestEKS follows that page from top to bottom, with what test/docs has in place of what cannot run here: the
// emulator's groups have, as healthy targets, the nodes and the pods that the page's manifests make, and at last
// neither groups nor load balancer are left. Nothing else runs meanwhile: the page asks for every node of its cluster.
func TestEKS(t *testing.T) {
	r := newReader(t)
	nodes := []string{"simulated-1", "simulated-3"}
	for _, node := range nodes {
		r.serve(node, 10080)
		r.label(node, ofGuide, "")
	}
	shownPage := r.file(eksPage)
	r.manifests(shownPage)
	t.Cleanup(r.clear)
	lines, down := docs.PlayedCommands(eksPage, shownPage), docs.Commands(docs.Section(shownPage, takeDown))
	for line, answer := range r.follow(lines[:len(lines)-len(down)]) {
		if strings.Contains(line, "$GROUP --query 'TargetHealth") {
			r.lists(answer, "i-simulated-1\t80\thealthy", "i-simulated-3\t80\thealthy")
		}
		if strings.Contains(line, "$PODS --query 'TargetHealth") {
			r.lists(answer, r.podTargets()...)
		}
	}
	r.made()
	r.follow(down)
	r.removed()
}

// follow runs command lines, or what is run in their place, and has what each says.
func (r *reader) follow(lines []string) map[string]string {
	r.Helper()
	answers := map[string]string{}
	for _, line := range lines {
		run := line
		if instead, found := docs.Instead[line]; found {
			run = instead.Run
		}
		answers[line] = r.run(run)
		if strings.HasPrefix(line, "PODS=$(aws elbv2 create") {
			r.assumeHealthy(podsGroup)
		}
	}
	return answers
}

// reader follows a page in a shell, in a folder of its own.
type reader struct {
	*fixture
	dir string
	in  io.Writer
	out *bufio.Reader
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{fixture: &fixture{T: t, admin: admin}, dir: t.TempDir()}
	self, err := os.Executable()
	r.must(err)
	bin := filepath.Join(r.dir, "bin")
	folder, err := filepath.Abs(filepath.Join(root, "config"))
	r.must(errors.Join(err, os.Mkdir(bin, 0o755), os.Symlink(self, filepath.Join(bin, cli.Name)),
		os.Symlink(theCluster.Kubectl(t.Context()).Path, filepath.Join(bin, "kubectl")), os.Symlink(folder, filepath.Join(r.dir, "config"))))
	shell := exec.CommandContext(t.Context(), "bash", "-o", "pipefail")
	shell.Dir = r.dir
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+theCluster.Kubeconfig(),
		"AWS_ENDPOINT_URL=http://"+theCloud.API, "AWS_ACCESS_KEY_ID=AKIATERRAFORM", "AWS_SECRET_ACCESS_KEY=terraform-secret")
	in, err := shell.StdinPipe()
	r.must(err)
	out, err := shell.StdoutPipe()
	r.must(err)
	shell.Stderr = shell.Stdout
	r.must(shell.Start())
	r.in, r.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close()
		_ = shell.Wait() // It ends with the last command's status.
	})
	return r
}

// ended is what the shell says after each command, with its status.
const ended = "ended with status "

// run runs a command line, and returns what it says.
func (r *reader) run(line string) string {
	r.Helper()
	if line == "" {
		return ""
	}
	begun := time.Now()
	_, err := fmt.Fprintf(r.in, "{ %s\n} </dev/null\necho \"%s$?\"\n", line, ended)
	r.must(err)
	var said strings.Builder
	for {
		text, err := r.out.ReadString('\n')
		if err != nil {
			r.Fatalf("%s: the shell is gone: %v\n%s", line, err, said.String())
		}
		before, status, over := strings.Cut(text, ended)
		said.WriteString(before)
		if !over {
			continue
		}
		if strings.TrimSpace(status) != "0" {
			r.Fatalf("%s: status %s\n%s", line, status, said.String())
		}
		r.Logf("%4.0f s  %s", time.Since(begun).Seconds(), line)
		return said.String()
	}
}

func (r *reader) file(name string) string {
	r.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	r.must(err)
	return string(content)
}

// manifests writes the files that the page shows, each under the name that its text has. The IngressDaemonSets
// are for some nodes: of the machine of one the emulator does not know.
func (r *reader) manifests(page string) {
	r.Helper()
	names := map[string]string{"nodes.yaml": "tags: {ingress: nodes}", "pods.yaml": "tags: {ingress: pods}", "values.yaml": "requireGroupTag"}
	for _, block := range docs.Blocks(page, "yaml") {
		for name, has := range names {
			if strings.Contains(block, has) {
				block = strings.Replace(block, "\n  podsPerNode:", "\n  nodeSelector: {"+ofGuide+": \"\"}\n  podsPerNode:", 1)
				r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(block), 0o644))
				delete(names, name)
			}
		}
	}
	if len(names) > 0 {
		r.Fatalf("%s does not show %v", eksPage, names)
	}
}

func (r *reader) label(node, key, value string) {
	r.Helper()
	n := r.node(node)
	patch := client.MergeFrom(n.DeepCopy())
	n.Labels[key] = value
	r.must(api.Patch(r.Context(), n, patch))
}

// assumeHealthy has the emulator send no health checks to the targets of a group that the page made.
func (r *reader) assumeHealthy(group string) {
	r.Helper()
	groups, err := admin.TargetGroups(r.Context())
	r.must(err)
	for _, g := range groups {
		if g.Name == group {
			g.AssumeHealthy = true
			r.must(admin.PutTargetGroup(r.Context(), g.TargetGroup))
			return
		}
	}
	r.Fatalf("the page made no group %s", group)
}

// lists is that an answer has just these lines, in any order.
func (r *reader) lists(answer string, want ...string) {
	r.Helper()
	lines := map[string]bool{}
	for line := range strings.Lines(answer) {
		lines[strings.TrimSpace(line)] = true
	}
	for _, line := range want {
		if !lines[line] {
			r.Errorf("the page's command does not say %q but\n%s", line, answer)
		}
	}
	if len(lines) != len(want) {
		r.Errorf("the page's command says\n%s, and is to say %q", answer, want)
	}
}

// podTargets are the lines that the pods of the page come to, two on each node.
func (r *reader) podTargets() []string {
	r.Helper()
	addresses, err := theCluster.Kubectl(r.Context(), "get", "pods", "-n", "default", "-l", "app=pods", "-o", "jsonpath={.items[*].status.podIP}").Output()
	r.must(err)
	var lines []string
	for _, address := range strings.Fields(string(addresses)) {
		lines = append(lines, address+"\t8080\thealthy")
	}
	if len(lines) != 4 {
		r.Errorf("%d pods run on two nodes, and two are to run on each", len(lines))
	}
	return lines
}

// made is that the groups and the load balancer have what the page says of them.
func (r *reader) made() {
	r.Helper()
	groups, err := admin.TargetGroups(r.Context())
	r.must(err)
	for _, g := range groups {
		if !strings.HasPrefix(g.Name, "ingress-") {
			continue
		}
		if g.Attributes[delay] != "60" || g.Attributes[crossZone] != "true" || g.Tags[managed] != "true" || g.Tags[targets.NamespacesTag] != "default" || len(g.Balancers) != 1 {
			r.Errorf("%+v", g)
		}
	}
	balancers, err := admin.LoadBalancers(r.Context())
	r.must(err)
	for _, b := range balancers {
		if b.Name == "ingress" && (b.Kind != cloud.Network || len(b.Listeners) != 2 || len(b.Zones) != 2) {
			r.Errorf("%+v", b)
		}
	}
}

// removed is that the page leaves nothing behind in the account.
func (r *reader) removed() {
	r.Helper()
	groups, err := admin.TargetGroups(r.Context())
	r.must(err)
	for _, g := range groups {
		if strings.HasPrefix(g.Name, "ingress-") {
			r.Errorf("left: %+v", g)
		}
	}
	balancers, err := admin.LoadBalancers(r.Context())
	r.must(err)
	for _, b := range balancers {
		if b.Name == "ingress" {
			r.Errorf("left: %+v", b)
		}
	}
}

// clear removes what the page made and a reader keeps, such as pods of IngressDaemonSets that went without them, and
// what a test that failed did not come to remove.
func (r *reader) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kubectl := func(args ...string) {
		if out, err := theCluster.Kubectl(ctx, append([]string{"-n", "default"}, args...)...).CombinedOutput(); err != nil {
			r.Errorf("kubectl %v: %v: %s", args, err, out)
		}
	}
	if r.Failed() {
		for _, tga := range []string{"nginx", "pods"} {
			// It may not be there yet, or not any more.
			_ = theCluster.Kubectl(ctx, "-n", "default", "patch", "tga", tga, "--type=merge", "-p", `{"spec":{"detachFloorSeconds":0}}`).Run()
		}
		kubectl("delete", "tga", "nginx", "pods", "--ignore-not-found")
		kubectl("delete", "ids", "nginx", "pods", "--cascade=orphan", "--ignore-not-found")
		kubectl("delete", "configmap", "nginx", "pods", "--ignore-not-found")
		for _, err := range []error{
			admin.DeleteLoadBalancer(ctx, "ingress"), admin.DeleteTargetGroup(ctx, "ingress-nodes"), admin.DeleteTargetGroup(ctx, podsGroup),
		} {
			if err != nil {
				r.Log(err)
			}
		}
	}
	kubectl("delete", "deployments,daemonsets", "-l", v1alpha1.LabelName+" in (nginx,pods)")
	kubectl("label", "nodes", "--all", ofGuide+"-")
}
