package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recordsOf are those of a group in an object's status. What cannot be read is an
// error: to go on without it would forget what is ours.
func recordsOf(g v1alpha1.AttachedGroup, owner string) ([]targets.Record, error) {
	var out []targets.Record
	for _, s := range g.Targets {
		r, err := targets.ParseRegistration(s)
		if err != nil {
			return nil, err
		}
		out = append(out, targets.Record{Registration: r, Owner: owner})
	}
	for _, l := range g.Leaving {
		r, err := targets.ParseRegistration(l.Target)
		if err != nil {
			return nil, err
		}
		record := targets.Record{Registration: r, Owner: owner, Leaving: true, Settled: l.Settled}
		if l.LeftAt != nil {
			record.LeftAt = l.LeftAt.Time
		}
		if l.QuietAt != nil {
			record.QuietAt = l.QuietAt.Time
		}
		out = append(out, record)
	}
	return out, nil
}

// groupOf is how records stand in an object's status, and whether there are any.
func groupOf(g targets.Group, records []targets.Record, unhealthy []string) (v1alpha1.AttachedGroup, bool) {
	out := v1alpha1.AttachedGroup{ID: g.ID, Balancer: string(g.Balancer)}
	for _, r := range records {
		s := r.Registration.String()
		if slices.Contains(unhealthy, s) {
			out.Unhealthy = append(out.Unhealthy, s)
		}
		if !r.Leaving {
			out.Targets = append(out.Targets, s)
			continue
		}
		leaving := v1alpha1.LeavingTarget{Target: s, Settled: r.Settled}
		if !r.LeftAt.IsZero() {
			leaving.LeftAt = new(metav1.NewTime(r.LeftAt.Truncate(time.Second)))
		}
		if !r.QuietAt.IsZero() {
			leaving.QuietAt = new(metav1.NewTime(r.QuietAt.Truncate(time.Second)))
		}
		out.Leaving = append(out.Leaving, leaving)
	}
	return out, len(records) > 0
}

// replaced is a list of groups in which one has other records.
func replaced(list []v1alpha1.AttachedGroup, g v1alpha1.AttachedGroup, any bool) []v1alpha1.AttachedGroup {
	out := slices.DeleteFunc(slices.Clone(list), func(o v1alpha1.AttachedGroup) bool { return o.ID == g.ID })
	if any {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b v1alpha1.AttachedGroup) int { return strings.Compare(a.ID, b.ID) })
	return out
}
