package conversion

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/golden"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata/*.out.yaml")

// TestExamples holds what is made of the manifests in testdata/NAME.in.yaml, as an API server gives them,
// against testdata/NAME.out.yaml. Read a pair of files to learn what becomes of a field.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, in := range files {
		name := strings.TrimSuffix(in, ".in.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			c := convertedFrom(t, in)
			text, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, *update, name+".out.yaml", text)
			sameWhenRead(t, c, text)
			if !slices.IsSortedFunc(c.Notes, func(a, b Note) int { return slices.Compare(placeOf(a.Field), placeOf(b.Field)) }) {
				t.Errorf("the notes are not in the order of the fields: %v", c.Notes)
			}
		})
	}
}

// convertedFrom converts the first manifest of a file, with the others as the pods of a Deployment.
func convertedFrom(t *testing.T, file string) Converted {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.Split(string(content), "\n---\n")
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(manifests[0]), &kind); err != nil {
		t.Fatal(err)
	}
	if kind.Kind == "DaemonSet" {
		var ds appsv1.DaemonSet
		strictly(t, manifests[0], &ds)
		return FromDaemonSet(&ds)
	}
	var d appsv1.Deployment
	strictly(t, manifests[0], &d)
	pods := make([]corev1.Pod, len(manifests)-1)
	for i, manifest := range manifests[1:] {
		strictly(t, manifest, &pods[i])
	}
	return FromDeployment(&d, pods)
}

func strictly(t *testing.T, manifest string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
}

// sameWhenRead reads what was written, as kubectl apply does.
func sameWhenRead(t *testing.T, c Converted, text string) {
	t.Helper()
	var read v1alpha1.IngressDaemonSet
	if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want, got := encode(t, c.Set), encode(t, &read)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is read is not what was written: %s\n%s", diff, text)
	}
}

func encode(t *testing.T, set *v1alpha1.IngressDaemonSet) string {
	t.Helper()
	data, err := json.MarshalIndent(set, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDelay reads for how long a preStop hook waits.
func TestDelay(t *testing.T) {
	for command, want := range map[string]int32{
		"sleep 15": 15, "/bin/sh -c sleep 20; nginx -s quit": 20, "/bin/sleep 5": 5, "sh -c sleep 7s && kill 1": 7, "nginx -s quit": 0, "sleep": 0, "sleep forever": 0,
		"nosleep 15": 0, "sleep 15m": 0, "sleep 99999999999999999999": longestGrace,
	} {
		hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: strings.Split(command, " ")}}
		if got := delayOf(hook); got != want {
			t.Errorf("%q: %d, want %d", command, got, want)
		}
	}
	for seconds, want := range map[int64]int32{9: 9, -1: 0, 1 << 40: longestGrace} {
		if got := delayOf(&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}); got != want {
			t.Errorf("%d: %d, want %d", seconds, got, want)
		}
	}
	if got := delayOf(&corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}); got != 0 {
		t.Errorf("a request takes %d seconds", got)
	}
}

// TestPullPolicy is the API server's default.
func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "localhost:5000/nginx": corev1.PullAlways, "nginx:1.22": corev1.PullIfNotPresent,
		"localhost:5000/nginx:1.22": corev1.PullIfNotPresent, "nginx@sha256:0123": corev1.PullIfNotPresent, "nginx:latest@sha256:0123": corev1.PullIfNotPresent,
	} {
		if got := pullPolicyOf(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

// FuzzConversion converts whatever a DaemonSet or a Deployment may hold, and writes it so that kubectl
// reads the same.
func FuzzConversion(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.in.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		manifest, _, _ := strings.Cut(string(content), "\n---\n")
		data, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, value := range []string{"", "yes", "on", "0x1F", "1e3", "12:30:45", "a: b", "a #b", "- a", "a\n  b\n", "a\r\nb", "\u0085", "\u2028", "'", `"`, "%", "@a", "~", "=", "<<", "\x00", "a\n\n\n", " a\n", "\t", "true", "2026-01-02"} {
		data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": value, "args": []any{value}}}}}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ds appsv1.DaemonSet
		var d appsv1.Deployment
		if json.Unmarshal(data, &ds) == nil {
			written(t, FromDaemonSet(&ds))
		}
		if json.Unmarshal(data, &d) == nil {
			written(t, FromDeployment(&d, nil))
		}
	})
}

func written(t *testing.T, c Converted) {
	if longestKey(t, c.Set) > 1000 {
		t.Skip("YAML permits keys of 1024 characters, with what is escaped in them; the API server lets no label be that long")
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	sameWhenRead(t, c, text)
}

// longestKey is how many characters the longest key of an object has in JSON, each as it is escaped at most.
func longestKey(t *testing.T, object any) (longest int) {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				longest = max(longest, len(strconv.QuoteToASCII(key)))
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(value)
	return longest
}
