package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// judge is a webhook that is content with every wave until it is told otherwise.
type judge struct {
	*httptest.Server
	mu       sync.Mutex
	rejects  bool
	revision map[string][]string
}

func newJudge(t *testing.T) *judge {
	j := &judge{revision: map[string][]string{}}
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Revision string
			Nodes    []string
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.revision[asked.Revision] = append(j.revision[asked.Revision], asked.Nodes...)
		if j.rejects {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(j.Close)
	return j
}

func (j *judge) reject(yes bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rejects = yes
}

// judged are the nodes that it was asked about, each as often as it was.
func (j *judge) judged(revision string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(slices.Values(j.revision[revision]))
}

// by has each wave judged twice.
func (j *judge) by(policy v1alpha1.FailurePolicy) change {
	return rolling(func(u *v1alpha1.RollingUpdate) {
		u.Analysis = []v1alpha1.AnalysisCheck{{
			Name: "judge", Webhook: &v1alpha1.WebhookCheck{URL: j.URL}, IntervalSeconds: new(int32(1)), Count: new(int32(2)),
			// It is asked again after a measurement that took too long.
			TimeoutSeconds: new(int32(300)),
		}}
		u.FailurePolicy = policy
	})
}

// TestAnalysis judges every wave of a rollout, and rolls one back that is
// rejected: the spec stays as it is, and no second node is touched.
func TestAnalysis(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 3)
	judge := newJudge(t)
	set := f.create("proxy", judge.by(v1alpha1.RollBackOnFailure))
	f.complete(set)

	f.change(set, version("v2"))
	f.complete(set)
	twice := slices.Sorted(slices.Values(append(slices.Clone(f.nodes), f.nodes...)))
	if got := judge.judged(set.Status.UpdateRevision); !slices.Equal(got, twice) {
		t.Errorf("the judge was asked about %v, want %v", got, twice)
	}
	if a := set.Status.Analysis; a == nil || a.Phase != v1alpha1.AnalysisPassed || len(a.Checks) != 1 || a.Checks[0].Passed != 2 {
		t.Errorf("status.analysis is %+v", a)
	}
	f.event(set, "AnalysisPassed")

	good := set.Status.CurrentRevision
	judge.reject(true)
	seen := f.record(set)
	f.change(set, version("v3"))
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonRolledBack)
	if r := set.Status.Rejected; r == nil || r.Revision != set.Status.UpdateRevision || set.Status.CurrentRevision != good {
		t.Errorf("status: %+v, rejected %+v", set.Status, r)
	}
	touched := map[string]bool{}
	for _, d := range seen() {
		if marked(d) {
			touched[d.Annotations[v1alpha1.AnnotationNode]] = true
		}
	}
	if len(touched) != 1 || f.images(set)["proxy:v2"] != 3 {
		t.Errorf("nodes %v were touched; images %v", touched, f.images(set))
	}
	if set.Spec.Template.Spec.Containers[0].Image != "proxy:v3" {
		t.Error("the rollback wrote the spec")
	}
	f.event(set, "RevisionRejected")
	f.says([]string{"RolledBack", "was rejected"}, "status", "proxy")

	judge.reject(false)
	f.change(set, version("v4"))
	f.complete(set)
	if set.Status.Rejected != nil || f.images(set)["proxy:v4"] != 3 {
		t.Errorf("rejected %+v, images %v", set.Status.Rejected, f.images(set))
	}
}

// TestAnalysisPauses stops at a wave that fails, and goes on when it is promoted.
func TestAnalysisPauses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	judge := newJudge(t)
	set := f.create("proxy", judge.by(""))
	f.complete(set)
	f.refuses("nothing to promote", "rollout", "promote", "proxy")

	judge.reject(true)
	f.change(set, version("v2"))
	f.waitReason(set, v1alpha1.ConditionProgressing, v1alpha1.ReasonAnalysisFailed)
	if f.images(set)["proxy:v2"] != 1 || set.Status.Rejected != nil {
		t.Errorf("images %v, rejected %+v", f.images(set), set.Status.Rejected)
	}
	f.says([]string{"AnalysisFailed", "judge", "status 403"}, "status", "proxy")

	judge.reject(false)
	f.says([]string{"proxy promoted"}, "rollout", "promote", "proxy")
	f.complete(set)
}
