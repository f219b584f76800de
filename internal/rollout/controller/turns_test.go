package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// TestNamespacesTakeTurns: whatever one namespace asks for, also by making objects anew, one of
// another has its measurements within one time-out.
func TestNamespacesTakeTurns(t *testing.T) {
	const timeout = 300 * time.Second
	for name, remade := range map[string]bool{"of the same objects": false, "of objects that are made anew": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				by := newMeasuring(func(_ context.Context, _ v1alpha1.AnalysisCheck, wave rollout.Wave) error {
					if wave.Namespace == "slow" {
						time.Sleep(timeout)
					}
					return nil
				}, time.Now)
				var sets sync.Map
				of := func(namespace, name string) *measurements {
					set := types.NamespacedName{Namespace: namespace, Name: name}
					m, _ := sets.LoadOrStore(set, newMeasurements(set, func() {}, by))
					return m.(*measurements)
				}
				begin := func(namespace, name string, checks int, analysis string) *measurements {
					m := of(namespace, name)
					for i := range checks {
						m.begin(v1alpha1.AnalysisCheck{Name: fmt.Sprint(i)}, analysis, rollout.Wave{Namespace: namespace, Name: name})
					}
					return m
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					for round := 0; ctx.Err() == nil; round++ {
						for i := range 30 {
							generation := 0
							if remade {
								generation = round
								of("slow", fmt.Sprintf("proxy%d-%d", i, round-1)).end()
							}
							begin("slow", fmt.Sprintf("proxy%d-%d", i, generation), 8, fmt.Sprint(generation))
						}
						time.Sleep(time.Second)
					}
				}()
				// One that is there for the first time, and has had turns before then.
				for round := range 5 {
					time.Sleep(timeout / 3)
					asked := time.Now()
					quick := begin("quick", "proxy", 2, fmt.Sprint("a", round))
					time.Sleep(timeout)
					synctest.Wait()
					all := quick.last()
					if len(all) != 2 || all[0].At.Before(asked) || all[1].At.Before(asked) {
						t.Errorf("round %d: after a time-out it has %+v", round, all)
					}
				}
				cancel()
				time.Sleep(40 * timeout)
				synctest.Wait()
				if left := by.turns; len(left.underWay)+len(left.served)+len(left.waiting)+left.total > 0 {
					t.Errorf("it remembers %+v", left)
				}
			})
		})
	}
}

// TestObjectsTakeTurns: in a namespace those come first that have the fewest under way, then
// those that were served longest ago, however many measurements each asks for.
func TestObjectsTakeTurns(t *testing.T) {
	turns := newTurns()
	of := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	for _, name := range []string{"a", "a", "a", "a", "b", "b", "c"} {
		turns.waiting = append(turns.waiting, queued{set: of(name)})
	}
	order := ""
	for next, ok := turns.take(); ok; next, ok = turns.take() {
		order += next.set.Name
	}
	if order != "abcab" {
		t.Errorf("the order is %s", order)
	}
	turns.end(of("b"))
	turns.end(of("c"))
	turns.end(of("a"))
	turns.waiting = append(turns.waiting, queued{set: of("b")}, queued{set: of("c")})
	for order = ""; len(order) < 3; {
		next, ok := turns.take()
		if !ok {
			t.Fatalf("nobody is next after %s", order)
		}
		order += next.set.Name
	}
	if order != "cab" {
		t.Errorf("then it is %s", order)
	}
}

// TestTurnsForget what ends when nobody is there any more whom it was for.
func TestTurnsForget(t *testing.T) {
	turns := newTurns()
	turns.waiting = append(turns.waiting, queued{set: theSet})
	if _, ok := turns.take(); !ok {
		t.Fatal("nobody has a turn")
	}
	turns.forget(theSet)
	turns.end(theSet)
	if len(turns.served) > 0 || len(turns.underWay) > 0 || turns.total != 0 {
		t.Errorf("it remembers %+v", turns)
	}
}
