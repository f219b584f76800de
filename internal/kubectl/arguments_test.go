package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

// TestSlips are errors wherever they are made, with the name that was most likely meant, so that no
// script takes them for done. The cluster is not asked.
func TestSlips(t *testing.T) {
	f := newFakeAPI(t)
	for line, want := range map[string]string{
		"stauts nginx":                        `unknown command "stauts" for "kubectl ids": did you mean "status"? See kubectl ids --help`,
		"stauts nginx --watch":                `unknown command "stauts" for "kubectl ids": did you mean "status"?`,
		"rollout stauts x":                    `unknown command "stauts" for "kubectl ids rollout": did you mean "status"? See kubectl ids rollout --help`,
		"rollout stauts x --timeout 5s":       `unknown command "stauts" for "kubectl ids rollout"`,
		"rollout xyzzy":                       `unknown command "xyzzy" for "kubectl ids rollout". See`,
		"set img nginx a=b":                   `unknown command "img" for "kubectl ids set": did you mean "image"?`,
		"port relase nginx 1":                 `did you mean "release"?`,
		"help rollout stauts":                 `unknown command "stauts" for "kubectl ids rollout": did you mean "status"?`,
		"help stauts":                         `unknown command "stauts" for "kubectl ids"`,
		"completion bsh":                      `unknown command "bsh" for "kubectl ids completion": did you mean "bash"?`,
		"completion bash zsh":                 `unexpected argument "zsh"`,
		"status nginx --wacth":                `unknown flag: --wacth: did you mean "--watch"? See kubectl ids status --help`,
		"list --all-namespace":                `did you mean "--all-namespaces"?`,
		"rollout undo nginx --xyzzy":          `unknown flag: --xyzzy. See kubectl ids rollout undo --help`,
		"rollout undo nginx -x":               `unknown shorthand flag: 'x' in -x. See kubectl ids rollout undo --help`,
		"rollout history nginx --revision x":  `invalid argument "x" for "--revision" flag`,
		"status":                              "missing argument NAME, for example: kubectl ids status nginx",
		"explain nginx":                       "missing argument NODE, for example: kubectl ids explain nginx node-1",
		"rollout undo":                        "missing argument NAME, for example: kubectl ids rollout undo nginx",
		"set image nginx":                     "missing argument CONTAINER=IMAGE, for example: kubectl ids set image nginx nginx=nginx:1.23",
		"port release nginx":                  "missing argument PORT, for example: kubectl ids port release nginx 10079",
		"from":                                "missing argument TYPE/NAME, for example: kubectl ids from daemonset/nginx",
		"attach":                              "missing argument NODE, for example: kubectl ids attach node-1",
		"attach --all node-1":                 `unexpected argument "node-1" beside --all`,
		"list nginx":                          `unexpected argument "nginx": the usage is kubectl ids list`,
		"status nginx envoy":                  `unexpected argument "envoy": the usage is kubectl ids status NAME`,
		"plan nginx -f not-there.yaml":        "open not-there.yaml: no such file or directory",
		"plan nginx --revision=-1":            "--revision is -1, which is negative",
		"plan nginx --ready=-5s":              "--ready is -5s, which is negative",
		"plan nginx -o xml":                   `output format "xml", allowed formats are: json,yaml`,
		"rollout undo nginx --to-revision=-2": "--to-revision is -2, which is negative",
		"rollout history nginx --revision=-1": "--revision is -1, which is negative",
		"rollout history nginx -o wide":       `output format "wide", allowed formats are: json,yaml`,
		"rollout status nginx --revision=-1":  "--revision is -1, which is negative",
		"rollout status nginx --timeout=-1s":  "--timeout is -1s, which is negative",
		"detach node-1 --timeout=-1s":         "--timeout is -1s, which is negative",
		"attach node-1 --stalled-after=-1s":   "--stalled-after is -1s, which is negative",
		"set image nginx nginx":               `"nginx" is not CONTAINER=IMAGE, such as nginx=nginx:1.23`,
		"set image nginx =nginx":              `"=nginx" is not CONTAINER=IMAGE`,
		"port release nginx http":             `"http" is not a port`,
		"from nginx":                          `"nginx" is not TYPE/NAME, such as daemonset/nginx`,
		"from daemonst/nginx":                 `did you mean "daemonset"?`,
		"version -o wide":                     "allowed formats are: json,yaml",
		"status nginx -o xml":                 "allowed formats are: json,wide,yaml",
		"list -o xml":                         "allowed formats are: json,wide,yaml",
	} {
		out, err := f.ids(strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("kubectl ids %s: %v, want %s\n%s", line, err, want, out)
		}
	}
	if f.asked > 0 {
		t.Errorf("the cluster was asked %d times", f.asked)
	}
}

// TestPlanOfAnotherFile is refused before the cluster is asked, too.
func TestPlanOfAnotherFile(t *testing.T) {
	f := newFakeAPI(t)
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte("kind: Service\nmetadata: {name: nginx}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ids("plan", "nginx", "-f", file); err == nil || !strings.Contains(err.Error(), `it holds no IngressDaemonSet "nginx", but Service "nginx"`) || f.asked > 0 {
		t.Errorf("%v, and the cluster was asked %d times", err, f.asked)
	}
}

// visit calls see for every command that a user is shown.
func visit(c *cobra.Command, see func(*cobra.Command)) {
	see(c)
	for _, inner := range c.Commands() {
		if !inner.Hidden {
			visit(inner, see)
		}
	}
}

// TestExamples finds in each help examples of that command, which it would take.
func TestExamples(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	commands := 0
	visit(NewCommand(streams, "v0"), func(c *cobra.Command) {
		commands++
		if strings.TrimSpace(c.Example) == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			rest, found := strings.CutPrefix(strings.TrimSpace(line), "kubectl ids ")
			if !found || !strings.HasPrefix(strings.TrimSpace(line), c.CommandPath()) {
				t.Errorf("an example of %s: %s", c.CommandPath(), line)
			}
			rest, _, _ = strings.Cut(rest, " > ")
			root := NewCommand(streams, "v0")
			named, args, err := root.Find(strings.Fields(rest))
			if err == nil {
				err = named.ParseFlags(args)
			}
			if err == nil {
				err = named.ValidateArgs(named.Flags().Args())
			}
			if err != nil || named.HasSubCommands() {
				t.Errorf("%s: %v", line, err)
			}
		}
	})
	if commands < 30 {
		t.Errorf("there are %d commands: this test looks in the wrong place", commands)
	}
}

// TestDefaultsAreShownAsUsersWriteThem: none is a number that stands for something else.
func TestDefaultsAreShownAsUsersWriteThem(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	visit(NewCommand(streams, "v0"), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.HasPrefix(f.DefValue, "-") {
				t.Errorf("%s --%s has the default %s", c.CommandPath(), f.Name, f.DefValue)
			}
		})
		if usage := c.UsageString(); strings.Contains(usage, "default -") {
			t.Errorf("%s shows\n%s", c.CommandPath(), usage)
		}
	})
}

// TestHelp shows a command's help, with its examples, in either way.
func TestHelp(t *testing.T) {
	f := newFakeAPI(t)
	for _, line := range []string{"help rollout undo", "rollout undo --help"} {
		out, err := f.ids(strings.Fields(line)...)
		if err != nil || !strings.Contains(out, "kubectl ids rollout undo nginx --to-revision 2") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for _, line := range []string{"", "rollout", "set", "completion"} {
		if out, err := f.ids(strings.Fields(line)...); err != nil || !strings.Contains(out, "Available Commands") {
			t.Errorf("%q: %v\n%s", line, err, out)
		}
	}
}

// TestVerbosity is kubectl's, not the version.
func TestVerbosity(t *testing.T) {
	f := newFakeAPI(t)
	f.put(kindSet, midway())
	if klog.V(1).Enabled() {
		t.Fatal("it is on before")
	}
	if out, err := f.ids("list", "-v", "1"); err != nil || !klog.V(1).Enabled() || klog.V(2).Enabled() {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := f.ids("list", "-v=0"); err != nil || klog.V(1).Enabled() {
		t.Error("it is not off again", err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"status", "history", "undo", "abort", "retry", "pause", "resume", "restart", "promote"}
	for word, want := range map[string]string{
		"stauts": "status", "puase": "pause", "resum": "resume", "restrat": "restart", "promot": "promote", "hist": "history", "undoo": "undo",
		"x": "", "xyzzy": "", "": "", "delete": "", "status": "status",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestDistance counts slips: as many as were made at most, and none only where there is none.
func TestDistance(t *testing.T) {
	word := rapid.StringMatching(`[a-d]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("%q and %q are %d and %d apart", a, b, d, distance(b, a))
		}
		if len(a) < 2 {
			return
		}
		i := rapid.IntRange(0, len(a)-2).Draw(t, "i")
		if swapped := a[:i] + a[i+1:i+2] + a[i:i+1] + a[i+2:]; distance(a, swapped) > 1 {
			t.Fatalf("%q and %q are %d apart", a, swapped, distance(a, swapped))
		}
	})
}
