package controller

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/stream"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

var (
	portHeld = wire.Refusal{Name: "listener/Gateway/shop/entry/more", Reason: wire.PortUnavailable + "port 8081: address already in use"}
	oddRoute = wire.Refusal{Name: "route/Ingress/shop/cheese/0", Reason: "it is odd"}
)

// renewals are pods that renew their streams, each time to any replica. The first replica leads.
type renewals struct {
	draw     *rand.Rand
	replicas []*Acknowledgements
	// streams counts those of each replica, and those by which it tells the leader.
	streams, telling []uint64
	at               map[string]renewed
}

type renewed struct {
	replica int
	stream  uint64
}

func (r *renewals) report(pod string, at renewed, ended bool, position uint64, refused []wire.Refusal) {
	r.replicas[at.replica].Report(delta.Report{
		Peer: delta.Peer{IngressDaemonSet: web, Pod: pod, UID: types.UID(pod)}, Stream: at.stream, Ended: ended,
		Acknowledgement: stream.Acknowledgement{Position: position, Refused: refused},
	})
}

// renew opens the next stream of a pod, on which it says again what it refuses, and ends the one before: before that,
// after it, or first of all, as where a connection breaks.
func (r *renewals) renew(pod string, refused []wire.Refusal) {
	before, had := r.at[pod]
	to := r.draw.IntN(len(r.replicas))
	r.streams[to]++
	next := renewed{to, r.streams[to]}
	r.at[pod] = next
	steps := []func(){
		func() { r.report(pod, next, false, 0, nil) },
		func() { r.report(pod, next, false, 7, refused) },
	}
	if had {
		steps = slices.Insert(steps, r.draw.IntN(3), func() { r.report(pod, before, true, 7, refused) })
	}
	for _, step := range steps {
		step()
		r.pause(time.Second)
	}
}

// pause is for up to a time, by chance for none.
func (r *renewals) pause(most time.Duration) {
	if r.draw.IntN(2) == 0 {
		time.Sleep(time.Duration(r.draw.Int64N(int64(most))))
	}
	synctest.Wait()
}

// tell has the other replicas tell the leader every two seconds, by streams that break now and then.
func (r *renewals) tell(ctx context.Context, t *testing.T, replica int) {
	for n := 1; ctx.Err() == nil; n++ {
		message, err := r.replicas[replica].Tell()
		if err != nil {
			t.Error(err)
		}
		r.replicas[0].Heard(r.telling[replica], message)
		if n%10 == 0 {
			r.replicas[0].Heard(r.telling[replica], nil)
			r.telling[replica] += 100
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
	}
}

// whenever does something where something may be refused, or is no more.
func (a *Acknowledgements) whenever(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusedChanged, a.objectChanged = do, func(routing.Ref) { do() }
}

// TestRenewal: that pods renew their streams, at whichever replica, changes nothing of what a status or an event says,
// at no moment. What they refuse no more, or who is gone, is said no more.
func TestRenewal(t *testing.T) {
	for number := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := &renewals{draw: rand.New(rand.NewPCG(number, 0)), streams: make([]uint64, 3), telling: []uint64{0, 1, 2}, at: map[string]renewed{}}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			for range 3 {
				r.replicas = append(r.replicas, NewAcknowledgements())
			}
			go r.tell(ctx, t, 1)
			go r.tell(ctx, t, 2)
			refused := map[string][]wire.Refusal{"web-0": {portHeld}, "web-1": {oddRoute, portHeld}, "web-2": nil}
			pods := []string{"web-0", "web-1", "web-2"}
			for _, pod := range pods {
				r.renew(pod, refused[pod])
			}
			time.Sleep(3 * time.Second)

			want := []refusedResource{{web, portHeld.Name, portHeld.Reason, "web-0"}, {web, oddRoute.Name, oddRoute.Reason, "web-1"}}
			leader := r.replicas[0]
			check := func() {
				if got := leader.refused(); !cmp.Equal(got, want) {
					t.Errorf("draw %d: refused is %v", number, got)
				}
			}
			leader.whenever(check)
			check()
			for range 20 {
				pod := pods[r.draw.IntN(len(pods))]
				r.renew(pod, refused[pod])
				check()
				r.pause(20 * time.Second)
			}

			time.Sleep(2 * hearOthers)
			synctest.Wait()
			leader.whenever(func() {})
			r.report("web-0", r.at["web-0"], false, 8, nil)
			// A replica whose stream breaks may have told of it the moment before.
			time.Sleep(3*time.Second + hearOthers)
			synctest.Wait()
			want[0].Pod = "web-1"
			check()
			r.report("web-1", r.at["web-1"], true, 8, refused["web-1"])
			time.Sleep(3*time.Second + 2*hearOthers)
			synctest.Wait()
			want = nil
			check()
		})
	}
}

// TestLastWord: of two streams of a pod that of which is later counts as soon as it says something, and what the other
// says after that does not.
func TestLastWord(t *testing.T) {
	a := NewAcknowledgements()
	gateway := types.NamespacedName{Namespace: "shop", Name: "entry"}
	for _, step := range []struct {
		what     string
		stream   uint64
		position uint64
		ended    bool
		refused  []wire.Refusal
		held     bool
		has      int
	}{
		{"it refuses", 1, 7, false, []wire.Refusal{portHeld}, true, 1},
		{"the next stream opens", 2, 0, false, nil, true, 1},
		{"the next stream says otherwise", 2, 7, false, nil, false, 1},
		{"the one before says again", 1, 6, false, []wire.Refusal{portHeld}, false, 1},
		{"the one before ends", 1, 6, true, []wire.Refusal{portHeld}, false, 1},
		{"it refuses anew", 2, 7, false, []wire.Refusal{portHeld}, true, 1},
		{"the last ends", 2, 7, true, []wire.Refusal{portHeld}, true, 0},
		{"another opens", 3, 0, false, nil, true, 0},
		{"that says otherwise", 3, 7, false, nil, false, 1},
	} {
		a.Report(delta.Report{
			Peer: delta.Peer{IngressDaemonSet: web, Pod: "web-0", UID: "web-0"}, Stream: step.stream, Ended: step.ended,
			Acknowledgement: stream.Acknowledgement{Position: step.position, Refused: step.refused},
		})
		said, held := a.ofListeners(web, gateway)["more"]
		if held != step.held || held && said.Reason != routing.ReasonPortUnavailable {
			t.Errorf("when %s, of the listener is said %v", step.what, said)
		}
		if has := a.of(web).have(7); has != step.has {
			t.Errorf("when %s, %d proxies have what was told", step.what, has)
		}
	}
}
