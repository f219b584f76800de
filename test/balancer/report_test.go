package balancer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
)

func TestErr(t *testing.T) {
	fine := Result{Name: "fine", Requests: 9, Moves: 2}
	lost := Result{Name: "lost", Requests: 9, Failed: 1, Moves: 2}
	still := Result{Name: "still", Requests: 9}
	for _, test := range []struct {
		Report
		want string
	}{
		{Report{Cases: []Result{fine}, Beside: []Result{lost}}, ""},
		{Report{Cases: []Result{fine, lost}}, "lost: 1 of 9 requests failed"},
		{Report{Cases: []Result{fine, still}}, "still: no target moved"},
		{Report{Cases: []Result{fine}, Beside: []Result{fine}}, "fine: no request failed"},
	} {
		err := test.Err()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.Report, err, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	var r Report
	r.Add(Case{}, Result{Name: "a", Requests: 3, Failed: 1, Moves: 2, Seed: 7, Story: "long"})
	r.Add(Case{Loses: true}, Result{Name: "b"})
	file := filepath.Join(t.TempDir(), "report.json")
	if err := r.Write(file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]map[string]any
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	c := got["cases"]
	if len(c) != 1 || len(c[0]) != 5 || c[0]["name"] != "a" || c[0]["requests"] != 3. || c[0]["failed"] != 1. || c[0]["moves"] != 2. || c[0]["seed"] != 7. {
		t.Errorf("%s", content)
	}
}

// TestMoves counts what the controller changed, and nothing that was refused.
func TestMoves(t *testing.T) {
	two := []target{{ID: "i-1"}, {ID: "i-2"}}
	calls := []api.Call{
		{Action: "RegisterTargets", Targets: two, CarriedOut: true, Principal: ours},
		{Action: "RegisterTargets", Targets: two, CarriedOut: true},
		{Action: "DeregisterTargets", Targets: two, Outcome: "Throttling"},
		{Action: "DeregisterTargets", Targets: two[:1], CarriedOut: true},
		{Action: "DescribeTargetHealth", Targets: two, CarriedOut: true},
	}
	if got := moves(calls); got != 3 {
		t.Errorf("%d moves, want 3", got)
	}
	if got := throttled(calls); got != 1 {
		t.Errorf("%d throttled, want 1", got)
	}
}
