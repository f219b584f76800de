// Package health tests what others make of our statuses, by their own libraries: kstatus, Flux's health
// check expressions in CEL and Argo CD's health checks in Lua, on what tests of the controllers recorded.
package health

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var update = flag.Bool("update", false, "rewrite testdata")

// recordings are the folders in which tests of the controllers record statuses: TestRecordedHealth.
var recordings = []string{
	"../../internal/rollout/controller/testdata/health",
	"../../internal/targets/testdata/health",
}

// state is an object at a moment of a story, or in a situation.
type state struct {
	At     string         `json:"at"`
	Object map[string]any `json:"object"`
}

// object is the state as clients of the API server have it.
func (s state) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: s.Object}
}

// verdict is what each of them says of a state.
type verdict struct {
	kstatus, flux, argo string
	message             string
}

// stories are the recordings, by their names.
func stories(t *testing.T) map[string][]state {
	t.Helper()
	out := map[string][]state{}
	for _, folder := range recordings {
		files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("nothing is recorded in %s: %v", folder, err)
		}
		for _, file := range files {
			out[strings.TrimSuffix(filepath.Base(file), ".jsonl")] = read(t, file)
		}
	}
	return out
}

func read(t *testing.T, file string) (out []state) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Buffer(nil, len(content)+1); lines.Scan(); {
		// Its reader of JSON gives integers, as clients do.
		object := &unstructured.Unstructured{}
		var line struct {
			At     string          `json:"at"`
			Object json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := object.UnmarshalJSON(line.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, state{line.At, object.Object})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// judge asks all of them. Attachments are in nobody's git, so that only kstatus is asked about those.
func judge(t *testing.T, s state) verdict {
	t.Helper()
	result, err := status.Compute(s.object())
	if err != nil {
		t.Fatal(err)
	}
	v := verdict{kstatus: result.Status.String(), message: result.Message}
	if s.object().GetKind() == "Attachment" {
		return v
	}
	v.flux = flux(t, s.object())
	var message string
	if v.argo, message = argo(t, s.object()); message != "" && v.argo != pending {
		v.message = message
	}
	return v
}

// TestRecordings lets people read what is made of each state: testdata has a file for each recording.
func TestRecordings(t *testing.T) {
	for name, states := range stories(t) {
		var out strings.Builder
		for _, s := range states {
			v := judge(t, s)
			fmt.Fprintf(&out, "%-34s  %-11s  %-11s  %-28s  %s\n", s.At, v.kstatus, v.flux, v.argo, v.message)
		}
		same(t, filepath.Join("testdata", name+".txt"), out.String())
	}
}

// same fails the test where a file has other content than got.
func same(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is meant, run with -update\n%s", file, diff)
	}
}

// courses are what kstatus has to make of stories, from the creation of the object on.
var courses = map[string][]status.Status{
	"rollout":   {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.CurrentStatus},
	"paused":    {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.CurrentStatus},
	"partition": {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.CurrentStatus},
	"blocked":   {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.CurrentStatus},
	"halt":      {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.FailedStatus, status.InProgressStatus, status.CurrentStatus},
	"deadline":  {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.FailedStatus, status.InProgressStatus, status.CurrentStatus},
	"rollback":  {status.InProgressStatus, status.CurrentStatus, status.InProgressStatus, status.FailedStatus, status.InProgressStatus, status.CurrentStatus},
	"deletion":  {status.InProgressStatus, status.CurrentStatus, status.TerminatingStatus},
}

// TestCourses: an object is current before a rollout and after it, and at no moment between; what halts or is
// taken back has failed, until somebody changes the spec; and what is deleted is terminating to its end.
func TestCourses(t *testing.T) {
	all := stories(t)
	for name, want := range courses {
		var got []status.Status
		for _, s := range all[name] {
			got = append(got, status.Status(judge(t, s).kstatus))
		}
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestTheyAgree: Flux and Argo CD say what kstatus says, each in its own words.
func TestTheyAgree(t *testing.T) {
	words := map[status.Status][]string{
		status.CurrentStatus: {"Healthy"}, status.InProgressStatus: {"Progressing", "Suspended"}, status.FailedStatus: {"Degraded"}, status.TerminatingStatus: {pending},
	}
	paused := 0
	for name, states := range stories(t) {
		for _, s := range states {
			if s.object().GetKind() == "Attachment" {
				continue
			}
			v := judge(t, s)
			if v.flux != v.kstatus && v.kstatus != status.TerminatingStatus.String() || !slices.Contains(words[status.Status(v.kstatus)], v.argo) {
				t.Errorf("%s at %s: %+v", name, s.At, v)
			}
			if v.argo == "Suspended" {
				paused++
			}
		}
	}
	if paused == 0 {
		t.Error("nothing is suspended, also while a rollout is paused")
	}
}

// TestLeftBehind: a controller that does not know these conditions leaves those of a newer one as they were,
// and they do not speak of what it does with a later spec. kstatus does not look at that.
func TestLeftBehind(t *testing.T) {
	for _, kind := range []string{"IngressDaemonSet", "TargetGroupAttachment"} {
		for _, left := range []string{"Ready", "Reconciling", "Stalled"} {
			s := state{Object: map[string]any{
				"apiVersion": "ingressdaemonsets.mumoshu.github.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "old", "generation": int64(4)},
				"status": map[string]any{"observedGeneration": int64(4), "conditions": []any{
					map[string]any{"type": left, "status": "True", "reason": "Complete", "message": "all serve", "observedGeneration": int64(3)},
				}},
			}}
			if v := judge(t, s); v.flux != "InProgress" || v.argo != "Progressing" {
				t.Errorf("%s of a %s: %+v", left, kind, v)
			}
		}
	}
}

// TestUnobserved: an object that no controller has seen is not current, be it new, or of a controller that
// does not know these conditions.
func TestUnobserved(t *testing.T) {
	for _, kind := range []string{"IngressDaemonSet", "TargetGroupAttachment", "Attachment"} {
		s := state{Object: map[string]any{
			"apiVersion": "ingressdaemonsets.mumoshu.github.io/v1alpha1", "kind": kind,
			"metadata": map[string]any{"name": "new", "generation": int64(1)}, "status": map[string]any{"observedGeneration": int64(-1)},
		}}
		v := judge(t, s)
		if v.kstatus != "InProgress" || kind != "Attachment" && (v.flux != "InProgress" || v.argo != "Progressing") {
			t.Errorf("%s: %+v", kind, v)
		}
		s.Object["status"] = map[string]any{"observedGeneration": int64(1)}
		if kind == "Attachment" {
			continue
		}
		if v := judge(t, s); v.flux != "InProgress" || v.argo != "Progressing" {
			t.Errorf("%s without conditions: %+v", kind, v)
		}
	}
}
