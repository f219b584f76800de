package controller

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth/healthclient"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
)

// mute accepts questions and never answers.
func mute(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestPortThatNeverAnswers does not keep an object undecided, also after a failover.
func TestPortThatNeverAnswers(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	p := serve(t, false, mute)
	p.until(t, p.changed, "the end of the question", func() bool { return p.checks.heardAll() })
	last := p.checks.last(p.endpoint)
	if took := time.Since(begin); took < healthclient.AnswerTime || took > 10*time.Second || !unanswered(last) || !last.Accepted {
		t.Errorf("after %s it is %+v", took, last)
	}
}

// lively answers a question that does not wait, and shows signs of life for a time to
// one that does. Then it hangs.
func lively(header bool, signs int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == "" {
			w.Header().Set("ETag", "same")
			if header {
				w.Header().Set(v1alpha1.HeaderLife, strconv.Itoa(v1alpha1.LifeSeconds))
			}
			fmt.Fprint(w, `{"serving": true}`)
			return
		}
		tick := time.NewTicker(v1alpha1.LifeSeconds * time.Second)
		defer tick.Stop()
		for range signs {
			w.WriteHeader(http.StatusProcessing)
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		<-r.Context().Done()
	}
}

// TestPortThatHangsWhileItIsAskedToWait is believed for as long as it shows life, and
// one of the release before, which shows none, as it was then.
func TestPortThatHangsWhileItIsAskedToWait(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	alive, dead, before := serve(t, false, lively(true, 3)), serve(t, false, lively(true, 0)), serve(t, false, lively(false, 0))
	for _, p := range []*port{alive, dead, before} {
		p.await(t, "serving", serving)
	}
	dead.await(t, "no answer", unanswered)
	if took := time.Since(begin); took < healthclient.Silence || took > healthclient.Silence+5*time.Second {
		t.Errorf("one that hangs was believed for %s", took)
	}
	alive.await(t, "no answer", unanswered)
	if took := time.Since(begin); took < healthclient.Silence+2*v1alpha1.LifeSeconds*time.Second {
		t.Errorf("one that showed life was believed for %s only", took)
	}
	if !serving(before.checks.last(before.endpoint)) {
		t.Error("a health checker that shows no life was not waited for")
	}
}

// TestChecksSayWhoTheyAreAndHearWhoElseAsks passes on what is not the verdict.
func TestChecksSayWhoTheyAreAndHearWhoElseAsks(t *testing.T) {
	answers := make(chan string, 3)
	answers <- `{"serving": true, "asked": {"by": "10.0.0.9", "secondsAgo": 1}}`
	answers <- `{"serving": true, "asked": {"by": "10.0.0.9"}, "quiet": true}`
	answers <- `{"serving": true, "asked": {"by": "10.0.0.9"}, "quiet": true, "blind": "forbidden"}`
	n := 0
	p := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get(v1alpha1.HeaderClient); got != "controller" {
			t.Errorf("it calls itself %q", got)
		}
		select {
		case body := <-answers:
			n++
			w.Header().Set("ETag", fmt.Sprint(n))
			fmt.Fprint(w, body)
		case <-r.Context().Done():
		}
	})
	p.await(t, "who asks", func(c rollout.Check) bool { return c.AskedBy == "10.0.0.9" && !c.Quiet })
	p.await(t, "quiet", func(c rollout.Check) bool { return c.Quiet && c.Blind == "" })
	p.await(t, "blind", func(c rollout.Check) bool { return c.Quiet && c.Blind == "forbidden" && c.Serving })
}
