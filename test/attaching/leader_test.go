package attaching

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/detach"
	detaching "github.com/mumoshu/ingress-daemonset-controller/internal/detach/controller"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	targeting "github.com/mumoshu/ingress-daemonset-controller/internal/targets/controller"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// leaseDuration is after how long without a sign of a leader another takes over.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long a leader may go on without having renewed its lease, and
	// renewEvery how often it does.
	renewDeadline = 8 * time.Second
	renewEvery    = 2 * time.Second
)

// leader is a process of the controller that leads: the two real Reconcilers, with caches
// that lag and a client that may die or freeze before any write or call.
type leader struct {
	w    *world
	name string
	// skew is how far its clock is ahead, in whole seconds. It does not see that itself:
	// what it reads in objects is by so much earlier, and what it writes later.
	skew  time.Duration
	began time.Time
	// listed is when what its first lists show was so.
	listed  time.Time
	running context.Context
	stop    context.CancelFunc
	views   map[string]*view
	targets *loop
	detach  *loop

	// thaw is closed when it goes on; nil while it is not frozen.
	thaw chan struct{}
	// renewedAt is when it last renewed its lease before it froze; zero where it has done
	// so since.
	renewedAt time.Time
	// lostAt is when another took over, zero while none has.
	lostAt time.Time
	gone   bool
}

// lead lets a new process lead, with mu held. Its first lists are stale by as much.
func (w *world) lead(skew, stale time.Duration) *leader {
	w.leads++
	l := &leader{w: w, name: fmt.Sprintf("leader %d", w.leads), skew: skew.Truncate(time.Second), began: time.Now(), listed: time.Now().Add(-stale)}
	l.running, l.stop = context.WithCancel(context.Background())
	l.openViews(stale)
	cached := &cachedClient{l: l}
	l.targets, l.detach = newLoop(20*time.Millisecond, 137), newLoop(50*time.Millisecond, 211)
	of := func(role *v1alpha1.AssumeRole) string {
		if role == nil {
			return ""
		}
		return role.ARN
	}
	forTargets := targeting.New(l.running, targeting.Options{
		Connect: func(role *v1alpha1.AssumeRole, before func(context.Context) error) (targeting.Cloud, error) {
			return l.connect(of(role), before)
		},
		Roles: rolesOf(others), Outcome: outcomeOf, SettleTime: settleTimeOf, Rate: w.scenario.rate, Burst: w.scenario.burst, GroupsEvery: time.Minute, Detaching: true,
		Leads: l.leads,
		Random: func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.dice("%s spreads at %s", l.name, w.time()).Float64()
		},
	}, cached, &liveReader{l: l}, silent{}, l.targets.trigger)
	options := detaching.Options{
		Reasons: detach.AllReasons, MinAttached: intstr.FromInt(w.scenario.minAttached), Targets: true, Leads: l.leads,
		InstanceID: func(providerID string) string {
			id, _ := targets.InstanceID(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: providerID}})
			return id
		},
	}
	if w.scenario.webhook {
		options.Webhooks = []detaching.Webhook{{Name: "edge", Ask: l.ask}}
	}
	forDetaching := detaching.New(options, cached, &liveReader{l: l}, silent{}, l.detach.trigger)
	w.leaders = append(w.leaders, l)
	w.lease = l
	w.say("%s leads, its clock %s ahead, its lists %s old", l.name, l.skew, stale)
	go l.targets.run(l, forTargets)
	go l.detach.run(l, forDetaching)
	return l
}

// loop is what the workqueue does for a controller that has one request: it gathers the
// events of a moment, and tries again what failed.
type loop struct {
	gather time.Duration
	// apart keeps passes from beginning in the very moment for which a controller has set
	// a timer of its own: of two in one moment synctest chooses the first at random.
	apart    time.Duration
	triggers chan struct{}
}

func newLoop(gather, apart time.Duration) *loop { return &loop{gather, apart, make(chan struct{}, 1)} }

func (l *loop) trigger() {
	select {
	case l.triggers <- struct{}{}:
	default:
	}
}

func (l *loop) run(of *leader, r reconcile.Reconciler) {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 10*time.Second)
	due := time.NewTimer(l.gather)
	defer due.Stop()
	at := time.Now().Add(l.gather)
	sooner := func(next time.Time) {
		if next = next.Add(l.apart); next.Before(at) {
			at = next
			due.Reset(time.Until(at))
		}
	}
	for of.alive() == nil {
		select {
		case <-of.running.Done():
			return
		case <-l.triggers:
			sooner(time.Now().Add(l.gather))
		case <-due.C:
			at = time.Now().Add(24 * time.Hour)
			select {
			case <-l.triggers:
				// What was triggered by now is a part of this pass.
			default:
			}
			of.w.locked(func() { of.w.audit.passes++ })
			result, err := r.Reconcile(of.running, reconcile.Request{})
			switch {
			case err != nil:
				of.w.locked(func() { of.w.say("%s failed: %v", of.name, inOrder(err)) })
				sooner(time.Now().Add(backoff.When(reconcile.Request{})))
			default:
				backoff.Forget(reconcile.Request{})
				if result.RequeueAfter > 0 {
					sooner(time.Now().Add(result.RequeueAfter))
				}
			}
		}
	}
}

// inOrder are the lines of an error, which are joined in any order.
func inOrder(err error) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(err.Error(), "\n")), "; ")
}

// leads reports whether no other can lead: what the process knows by when it renewed its lease. It
// may be frozen right before it looks; between that and what it does then nobody can tell.
func (l *leader) leads() bool {
	l.w.mu.Lock()
	l.mayFreeze(l.w.dice("%s looks at its lease at %s", l.name, l.w.time()))
	l.w.mu.Unlock()
	l.thawed()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return !l.gone && (l.renewedAt.IsZero() || time.Since(l.renewedAt) < renewDeadline)
}

// alive is an error where the process has ended.
func (l *leader) alive() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.gone {
		return errGone
	}
	return nil
}

// thawed returns when the process is not frozen.
func (l *leader) thawed() {
	for {
		l.w.mu.Lock()
		thaw := l.thaw
		l.w.mu.Unlock()
		if thaw == nil {
			return
		}
		<-thaw
	}
}

// die ends a process where it stands, with mu held; a while later another leads.
func (l *leader) die(away, stale time.Duration) {
	if l.gone {
		return
	}
	w := l.w
	l.end()
	w.say("%s dies", l.name)
	skew := w.anySkew(w.dice("%s dies", l.name))
	w.after(away, func() {
		if w.lease == nil {
			w.lead(skew, stale)
		}
	})
}

// end ends a process, with mu held.
func (l *leader) end() {
	l.gone = true
	l.stop()
	if l.thaw != nil {
		close(l.thaw)
		l.thaw = nil
	}
	l.w.leaders = slices.DeleteFunc(l.w.leaders, func(o *leader) bool { return o == l })
	if l.w.lease == l {
		l.w.lease = nil
	}
}

// mayFreeze freezes a process now and then, with mu held.
func (l *leader) mayFreeze(r *rand.Rand) bool {
	if l.gone || l.thaw != nil || l.w.healed || l.w.scenario.freezes == 0 || r.Float64() >= l.w.scenario.freezes || l.lostAt != (time.Time{}) {
		return false
	}
	l.freeze(between(r, time.Second, 10*time.Minute))
	return true
}

// freeze stops a process for a while, with mu held. When its lease is over another leads;
// it finds out a moment after it has thawed.
func (l *leader) freeze(d time.Duration) {
	if l.gone || l.thaw != nil {
		return
	}
	w, thaw := l.w, make(chan struct{})
	w.say("%s is frozen for %s", l.name, d)
	l.thaw = thaw
	r := w.dice("%s freezes", l.name)
	if l.renewedAt.IsZero() {
		l.renewedAt = time.Now().Add(-between(r, 0, renewEvery))
	}
	if d > leaseDuration {
		skew, stale := w.anySkew(r), w.anyStale(r)
		w.after(leaseDuration, func() {
			if l.thaw == thaw && !l.gone {
				l.lostAt = time.Now()
				w.lead(skew, stale)
			}
		})
	}
	w.after(d, func() {
		if l.thaw != thaw {
			return
		}
		w.say("%s thaws", l.name)
		l.thaw = nil
		close(thaw)
		for _, kind := range kinds {
			v := l.views[kind]
			w.after(between(r, time.Millisecond, 500*time.Millisecond), v.comes)
		}
		w.after(between(r, 0, renewEvery), func() {
			switch {
			case l.gone || l.thaw != nil:
			case !l.lostAt.IsZero():
				l.end()
			default:
				l.renewedAt = time.Time{}
			}
		})
	})
}

func (w *world) anySkew(r *rand.Rand) time.Duration {
	if !w.scenario.skewed {
		return 0
	}
	return between(r, -15*time.Minute, 15*time.Minute)
}

func (w *world) anyStale(r *rand.Rand) time.Duration {
	if !w.scenario.stale {
		return 0
	}
	return between(r, 0, 30*time.Second)
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
