package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCountsWait has a status of which only counts and messages changed wait until the last
// one has stood for a while; what decisions go by is written at once.
func TestCountsWait(t *testing.T) {
	type status = v1alpha1.IngressDaemonSetStatus
	for name, test := range map[string]struct {
		change func(*status)
		waits  bool
	}{
		"a count":   {func(s *status) { s.ServingNodes++ }, true},
		"a message": {func(s *status) { s.Conditions[0].Message = "2 nodes" }, true},
		"a reason":  {func(s *status) { s.Conditions[0].Reason = v1alpha1.ReasonComplete }, false},
		"a state":   {func(s *status) { s.Conditions[0].Status = metav1.ConditionFalse }, false},
		"a condition": {func(s *status) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionBlocked})
		}, false},
		"the wave":       {func(s *status) { s.Wave = []string{"node-1"} }, false},
		"the generation": {func(s *status) { s.ObservedGeneration++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _, err := newReconciler(benchSet())
				if err != nil {
					t.Fatal(err)
				}
				live := &v1alpha1.IngressDaemonSet{}
				write := func(change func(*status)) (written bool, again time.Time) {
					t.Helper()
					if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(benchSet()), live); err != nil {
						t.Fatal(err)
					}
					o := &observed{session: r.sessions.pass(live), set: live.DeepCopy()}
					o.state.Now = r.now()
					wanted := *live.Status.DeepCopy()
					change(&wanted)
					again, err := r.writeStatus(t.Context(), o, wanted)
					if err == nil {
						err = r.client.Get(t.Context(), client.ObjectKeyFromObject(live), live)
					}
					if err != nil {
						t.Fatal(err)
					}
					return live.ResourceVersion != o.set.ResourceVersion, again
				}
				write(func(s *status) {
					s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRollingOut, Message: "1 node"}}
				})
				due := r.now().Add(countsEvery)
				switch written, again := write(test.change); {
				case written == test.waits:
					t.Fatalf("written at once: %t", written)
				case test.waits && !again.Equal(due):
					t.Errorf("looked at again at %s, want %s", again, due)
				}
				if !test.waits {
					return
				}
				time.Sleep(countsEvery)
				if written, _ := write(test.change); !written {
					t.Error("never written")
				}
			})
		})
	}
}
