package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// leader is the real controller, with caches that lag and a client that may die or
// freeze before any write.
type leader struct {
	w *world
	r *Reconciler
	// ctx carries the log, by which a decision is known before it is acted on.
	ctx   context.Context
	views map[string]*view
	// skew is how far its clock is ahead, began when it began to lead.
	skew  time.Duration
	began time.Time

	wakeAt time.Time
	// busy is in the middle of a pass, again whether another is due after it.
	busy, again bool
	backoff     workqueue.TypedRateLimiter[reconcile.Request]

	// seen is what the last decision was made from, left are the steps of it that were
	// not carried out yet.
	seen *picture
	left []rollout.Step

	// frozenUntil is when it thaws.
	frozenUntil time.Time
	stopped     bool
}

// picture is a State, since when there are events that it was made without, and when it was
// decided upon.
type picture struct {
	rollout.State
	decision rollout.Decision
	taken    time.Time
	at       time.Time
}

var request = reconcile.Request{NamespacedName: theSet}

// ctx is of no consequence.
var ctx = context.Background()

// lead lets a new controller lead.
func (w *world) lead(skew time.Duration) *leader {
	l := &leader{w: w, skew: skew, began: w.now, backoff: backoff()}
	l.r = emptyReconciler(l.now)
	l.r.sessions.spent = func() time.Duration { return 0 }
	l.r.client = &simClient{Client: apiserver.Client{Server: w.api}, l: l}
	l.r.live, l.r.index, l.r.image, l.r.parallel = &apiserver.Client{Server: w.api}, l.index, w.image, 1
	l.r.recorder = silent{}
	if !w.forbids {
		l.r.detachers = []rollout.Detacher{{Ask: "detached", Answer: "at"}, {Ask: "out", Answer: "out-at"}}
	}
	l.r.sessions.trigger, l.r.sessions.listen = l.trigger, l.listen
	l.r.sessions.measuring.make = l.measured
	l.r.sessions.measuring.beside = func(do func()) {
		l.tells(rollout.Measure)
		w.after(w.between(10*time.Millisecond, 3*time.Second), func() {
			if !l.stopped {
				do()
			}
		})
	}
	l.ctx = logr.NewContext(context.Background(), logr.New(decisions{l}))
	l.openViews()
	w.leaders = append(w.leaders, l)
	l.wakeAfter(0)
	l.beats()
	return l
}

// beats is what its process does of itself, but while it is frozen.
func (l *leader) beats() {
	if l.stopped {
		return
	}
	if !l.w.now.Before(l.frozenUntil) {
		l.r.freezes.beat()
	}
	l.w.after(beatEvery, l.beats)
}

func (l *leader) now() time.Time { return l.w.now.Add(l.skew) }

// nextClock is how far the clock of a controller is ahead that follows one with another.
func (w *world) nextClock(last time.Duration) time.Duration {
	if w.apart == 0 {
		return last
	}
	return min(max(last+w.between(-w.apart, w.apart), -w.apart), w.apart)
}

func (l *leader) trigger(types.NamespacedName) { l.wakeAfter(l.session().throttle.pause()) }

// session is what it remembers.
func (l *leader) session() *session { return l.r.sessions.of(theSet) }

func (l *leader) wakeAfter(d time.Duration) {
	t := l.w.now.Add(d)
	if !l.wakeAt.IsZero() && !l.wakeAt.After(t) {
		return
	}
	l.wakeAt = t
	l.w.at(t, func() {
		if l.wakeAt.Equal(t) && !l.stopped {
			l.wakeAt = time.Time{}
			l.pass()
		}
	})
}

// pass is what the workqueue does with one request.
func (l *leader) pass() {
	if l.busy {
		l.again = true
		return
	}
	l.busy, l.again = true, false
	l.left = nil
	result, err := l.r.Reconcile(l.ctx, request)
	l.busy = false
	if l.stopped {
		return
	}
	switch {
	case err != nil:
		l.wakeAfter(l.backoff.When(request))
	case result.RequeueAfter > 0:
		l.backoff.Forget(request)
		l.wakeAfter(result.RequeueAfter)
	default:
		l.backoff.Forget(request)
	}
	if l.again {
		l.wakeAfter(0)
	}
}

// decisions is the log of a leader, of which it takes what was decided and why.
type decisions struct{ l *leader }

func (decisions) Init(logr.RuntimeInfo)            {}
func (decisions) Enabled(int) bool                 { return true }
func (decisions) Error(error, string, ...any)      {}
func (d decisions) WithValues(...any) logr.LogSink { return d }
func (d decisions) WithName(string) logr.LogSink   { return d }
func (d decisions) Info(_ int, what string, kv ...any) {
	if what != "decided" {
		return
	}
	l := d.l
	l.seen = &picture{State: kv[1].(rollout.State), decision: kv[3].(rollout.Decision), taken: l.asOf(), at: l.w.now}
	l.left = slices.Clone(l.seen.decision.Steps)
	l.w.audit.decided(l.seen, l.seen.decision)
}

// stop ends a leader where it stands.
func (l *leader) stop() {
	l.stopped = true
	l.session().checks.want(nil)
	l.w.leaders = slices.DeleteFunc(l.w.leaders, func(other *leader) bool { return other == l })
}

var (
	errGone = errors.New("the controller is gone")
	errHung = errors.New("the API server takes no writes")
)

// pauses is what may happen to a controller before a write: it dies and another takes
// over, or it is frozen while others go on.
func (l *leader) pauses() error {
	w := l.w
	switch {
	case l.stopped:
		return errGone
	case w.chance(w.crashes):
		w.tell("world", "the controller dies")
		l.dies(w.between(time.Second, 20*time.Second))
		return errGone
	case w.chance(w.freezes):
		l.freeze(w.between(time.Second, 15*time.Minute))
	case w.hung > 0:
		w.run(w.now.Add(w.hung))
		return errHung
	case w.chance(0.1):
		// A write takes its time.
		w.run(w.now.Add(w.between(time.Millisecond, 30*time.Millisecond)))
	}
	if l.stopped {
		return errGone
	}
	return nil
}

// dies ends a leader; a while later another leads, unless one does by then.
func (l *leader) dies(away time.Duration) {
	l.stop()
	l.w.after(away, func() {
		if len(l.w.leaders) == 0 {
			l.w.lead(l.w.nextClock(l.skew))
		}
	})
}

// freeze lets the world go on without a leader. When its lease is over another leads;
// the frozen one finds out a moment after it has thawed.
func (l *leader) freeze(d time.Duration) {
	w := l.w
	w.tell("world", "the controller is frozen for %s", d)
	l.frozenUntil = w.now.Add(d)
	w.freezes = 0
	if d > leaseDuration {
		w.after(leaseDuration, func() {
			if len(w.leaders) == 1 && w.leaders[0] == l {
				w.lead(w.between(-15*time.Minute, 15*time.Minute))
			}
		})
		w.at(l.frozenUntil.Add(w.between(0, 2*time.Second)), func() {
			if len(w.leaders) > 1 && !l.stopped {
				l.stop()
			}
		})
	}
	w.run(l.frozenUntil)
	// What waited for it meanwhile waits anew.
	clear(w.audit.since)
	w.tell("world", "the frozen controller thaws")
}

const leaseDuration = 15 * time.Second

// simClient is the client of a leader: it reads what the leader's caches hold.
type simClient struct {
	apiserver.Client
	l *leader
}

// do carries out a write on behalf of the leader.
func (c *simClient) do(write func() error) error {
	if err := c.l.pauses(); err != nil {
		return err
	}
	if len(c.l.w.audit.faults) > 0 {
		return errGone
	}
	c.l.w.writer = c.l
	defer func() { c.l.w.writer = nil }()
	return write()
}

func (c *simClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.do(func() error { return c.Client.Create(ctx, obj, opts...) })
}

func (c *simClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.do(func() error { return c.Client.Update(ctx, obj, opts...) })
}

func (c *simClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	return c.do(func() error {
		if len(o.DryRun) > 0 {
			c.l.tells(rollout.DryRunDeployment)
		}
		return c.Client.Patch(ctx, obj, patch, opts...)
	})
}

func (c *simClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.do(func() error { return c.Client.Apply(ctx, obj, opts...) })
}

func (c *simClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.do(func() error { return c.Client.Delete(ctx, obj, opts...) })
}

func (c *simClient) Status() client.SubResourceWriter {
	return simStatus{c.Client.Status(), c}
}

type simStatus struct {
	client.SubResourceWriter
	c *simClient
}

func (s simStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.c.do(func() error { return s.SubResourceWriter.Update(ctx, obj, opts...) })
}

// wrote follows a write of the leader that is certain.
func (l *leader) wrote(before, after client.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	if set, ok := after.(*v1alpha1.IngressDaemonSet); ok && before != nil {
		l.w.reported(&before.(*v1alpha1.IngressDaemonSet).Status, &set.Status)
	}
	if holds := func(obj client.Object) bool {
		return obj != nil && controllerutil.ContainsFinalizer(obj, v1alpha1.Finalizer)
	}; holds(before) && !holds(after) {
		l.tells(rollout.RemoveFinalizer)
	}
	l.w.audit.counts(obj)
	l.w.audit.leavesBehind(before, after)
	if s := l.step(obj, after == nil || after.GetDeletionTimestamp() != nil); s != nil {
		l.w.audit.acts(l.seen, *s)
		l.w.tell("controller", "%s", *s)
	}
}

// tells tells the step of a kind that no other object shows.
func (l *leader) tells(a rollout.Action) {
	if i := slices.IndexFunc(l.left, func(s rollout.Step) bool { return s.Action == a }); i >= 0 {
		l.w.tell("controller", "%s", l.left[i])
		l.left = slices.Delete(l.left, i, i+1)
	}
}

// step finds the step that a write carries out.
func (l *leader) step(obj client.Object, deletes bool) *rollout.Step {
	is := func(s rollout.Step) bool {
		switch obj := obj.(type) {
		case *appsv1.Deployment:
			return s.Node == nodeOf(obj) && ofDeployment(s.Action)
		case *corev1.Node:
			return s.Node == obj.Name && (s.Action == rollout.RequestDetachment || s.Action == rollout.ReleaseDetachment)
		case *corev1.Pod:
			return s.Action == rollout.DeletePods && slices.Contains(s.Pods, obj.Name)
		case *appsv1.ControllerRevision:
			return s.Action == rollout.RecordRevision
		case *appsv1.DaemonSet:
			action := map[bool]rollout.Action{false: rollout.ApplyChecker, true: rollout.DeleteChecker}[deletes]
			return s.Action == action && obj.Labels[v1alpha1.LabelHealthCheckPort] == portLabel(s.Port)
		}
		return false
	}
	i := slices.IndexFunc(l.left, is)
	if i < 0 {
		return nil
	}
	s := l.left[i]
	if s.Action == rollout.DeletePods && s.Pods[len(s.Pods)-1] != obj.GetName() {
		// They are deleted in this order.
		return nil
	}
	l.left = slices.Delete(l.left, i, i+1)
	return &s
}

func ofDeployment(a rollout.Action) bool {
	switch a {
	case rollout.Create, rollout.Mark, rollout.Unmark, rollout.Update, rollout.HoldBack, rollout.SetFields, rollout.ScaleToZero, rollout.Delete, rollout.Stamp:
		return true
	}
	return false
}

// reported tells what the status says that it did not say before.
func (w *world) reported(before, after *v1alpha1.IngressDaemonSetStatus) {
	w.audit.reports(before, after)
	if !slices.Equal(before.Wave, after.Wave) {
		w.tell("status", "the wave is %v", after.Wave)
	}
	for _, c := range after.Conditions {
		last := meta.FindStatusCondition(before.Conditions, c.Type)
		stands := slices.Contains(kstatus.Conditions, c.Type)
		switch {
		case last != nil && last.Status == c.Status && last.Reason == c.Reason:
		case !stands:
			w.tell("status", "%s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
		case c.Status == metav1.ConditionTrue:
			// What there is to say of it is said already.
			w.tell("status", "it is %s, %s", c.Type, c.Reason)
		}
	}
}

// measured makes a measurement of a wave.
func (l *leader) measured(_ context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error {
	w := l.w
	m := rollout.Measurement{Check: check.Name, Analysis: l.session().measurements.underWay[check.Name]}
	defer func() { w.audit.measured(m) }()
	set := w.set()
	// Before that, pods are replaced: whoever measures then asks for nothing that these answer.
	atRest := set != nil && set.Status.Analysis != nil && set.Status.Analysis.Phase == v1alpha1.AnalysisMeasuring
	for _, n := range wave.Nodes {
		if node := w.nodes[n.Name]; node == nil || !node.alive || atRest && node.api.Spec.Unschedulable && w.readyPods(n.Name) == 0 {
			m.Failure = "node " + n.Name + " does not answer"
			return &rollout.NodesFailed{Nodes: []string{n.Name}, Why: m.Failure}
		}
		if d := w.deployments[n.Name]; d != nil && w.misbehaves[imageOf(d.api.Spec.Template)] {
			m.Failure = "it misbehaves"
			// A check during the wave meets pods of before too, and cannot tell them apart.
			w.everBad[imageOf(w.spec().Template)] = true
			return errors.New(m.Failure)
		}
	}
	return nil
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// called is what a view calls where something changed.
type called struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	l *leader
}

func (q called) Add(reconcile.Request) { q.l.wakeAfter(0) }

func (q called) AddAfter(_ reconcile.Request, d time.Duration) { q.l.wakeAfter(d) }
