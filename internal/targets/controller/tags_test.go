package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// TestAPartialAnswerTakesNoTags keeps those of a group that an answer about tags leaves out,
// and has it for unread, not for one without tags, where they were never read. Nobody asks for
// them again before all are due.
func TestAPartialAnswerTakesNoTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, web := &someTags{}, group(targets.Instance)
		web.Tags = nil
		a := accountOf(&fakeCloud{}, func() {})
		a.cloud, a.running = cloud, t.Context()
		a.groups.all = []targets.Group{web}
		for i, answer := range []map[string]map[string]string{nil, {web.ID: {"a": "b"}}, nil, {web.ID: {}}} {
			cloud.tags = answer
			for range 3 {
				a.readTags(targets.AccountPlan{Tags: true}, time.Minute)
				time.Sleep(time.Second)
			}
			if want := i + 1; cloud.asked != want {
				t.Errorf("asked %d times within %d minutes", cloud.asked, want)
			}
			tags, read := a.survey.tags[web.ID]
			if wantRead, want := i > 0, []int{0, 1, 1, 0}[i]; read != wantRead || len(tags) != want {
				t.Errorf("after answer %d: %v, read %t", i, tags, read)
			}
			time.Sleep(time.Minute)
		}
	})
}

// someTags answers with what tags it has.
type someTags struct {
	fakeCloud
	tags  map[string]map[string]string
	asked int
}

func (s *someTags) Tags(context.Context, []targets.Group) (map[string]map[string]string, error) {
	s.asked++
	return s.tags, nil
}
