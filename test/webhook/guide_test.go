package webhook

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/docs"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
)

// TestGuide runs the commands of the guide, as its reader would.
func TestGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/guides/webhook.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := docs.Blocks(string(page), "sh")
	if len(blocks) != 2 {
		t.Fatalf("the guide has %d blocks of commands: one to run the receiver and one to ask it are known here", len(blocks))
	}
	n := startNode(t, "node-1", nil, nil)
	b := startBalancer(t, n)
	listen, dir := "127.0.0.1:0", t.TempDir()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	shell := func(text string) *exec.Cmd {
		here := strings.NewReplacer(
			"127.0.0.1:9180", listen, "/run/haproxy/admin.sock", b.socket,
			"go build -o webhook-haproxy", "go build -C "+top+" -o "+dir+"/webhook-haproxy",
			"./webhook-haproxy -listen", "exec ./webhook-haproxy -listen",
		)
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", here.Replace(text))
		cmd.Dir = dir
		return cmd
	}
	receiver := shell(blocks[0])
	listen = startListening(t, receiver)
	t.Cleanup(func() { receiver.Process.Kill(); receiver.Wait() })

	for _, ask := range []struct {
		action string
		is     lb.Status
	}{{"detach", lb.Drain}, {"attach", lb.Up}} {
		command := strings.ReplaceAll(blocks[1], `"detach"`, `"`+ask.action+`"`)
		eventually(t, ask.action+" is answered with 200", func() bool {
			asking := shell(command)
			asking.Stderr = t.Output()
			out, err := asking.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return strings.Contains(string(out), "200 OK")
		})
		if !b.is(t, n.name, ask.is) {
			t.Errorf("after %s the server is not %s", ask.action, ask.is)
		}
	}
}
