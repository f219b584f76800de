package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/nodehealth"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// watching is a Watcher that runs, and the last State it gave.
type watching struct {
	*Watcher
	last atomic.Pointer[nodehealth.State]
	stop func()

	mu sync.Mutex
	// verdicts are of all States since the reason last became what a test waited for.
	verdicts []v1alpha1.HealthCheckAnswer
}

func startWatcher(t *testing.T, api *fakeAPI, stateDir string) *watching {
	t.Helper()
	w := newWatching(t, api.config(), stateDir)
	w.start(t)
	return w
}

func newWatching(t *testing.T, config *rest.Config, stateDir string) *watching {
	t.Helper()
	sources, err := NewSources(config, "ns", n1)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{}
	w.Watcher = NewWatcher(sources, n1, stateDir, w.take, quiet)
	return w
}

func (w *watching) take(s nodehealth.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.Store(&s)
	w.verdicts = append(w.verdicts, nodehealth.Decide(s))
}

func (w *watching) start(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(w.stop)
}

func (w *watching) becomes(t *testing.T, reason string) nodehealth.State {
	t.Helper()
	await.True(t, "the reason is "+reason, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.verdicts); n == 0 || w.verdicts[n-1].Reason != reason {
			return false
		}
		w.verdicts = w.verdicts[len(w.verdicts)-1:]
		return true
	})
	return *w.last.Load()
}

// all reports whether all verdicts were so since the reason last became what was waited for, and are
// when it has looked twice more: the second time at all that there was before.
func (w *watching) all(t *testing.T, is func(v1alpha1.HealthCheckAnswer) bool) {
	t.Helper()
	for range 2 {
		before := w.last.Load()
		w.change()
		await.True(t, "it looks once more", func() bool { return w.last.Load() != before })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, verdict := range w.verdicts {
		if !is(verdict) {
			t.Fatalf("the verdict became %+v", verdict)
		}
	}
}

func (w *watching) stays(t *testing.T, reason string) {
	t.Helper()
	w.all(t, func(verdict v1alpha1.HealthCheckAnswer) bool { return verdict.Reason == reason })
}

// hears waits until it was told of an object as it is now.
func (w *watching) hears(t *testing.T, o metav1.Object) {
	t.Helper()
	await.True(t, "it is told of "+o.GetName(), func() bool {
		return slices.ContainsFunc(w.feeds(), func(f *feed) bool {
			return slices.ContainsFunc(f.List(), func(told any) bool { return told.(metav1.Object).GetResourceVersion() == o.GetResourceVersion() })
		})
	})
}

func (w *watching) feeds() []*feed { return append(slices.Clone(w.deployments), w.pods) }

// watches reports whether all watches are open.
func (w *watching) watches() bool {
	for _, f := range w.feeds() {
		f.mu.Lock()
		open := f.watching
		f.mu.Unlock()
		if !open {
			return false
		}
	}
	return true
}

func TestWatcherFollowsTheAPIServer(t *testing.T) {
	for name, old := range map[string]bool{"with streamed lists": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t)
			api.old = old
			w := startWatcher(t, api, t.TempDir())
			w.becomes(t, nodehealth.DeploymentMissing)
			<-w.Decided()
			api.set("deployments", apiDeployment(nil))
			w.becomes(t, nodehealth.TooFewPodsReady)
			api.set("pods", apiPod(true, true, nil))
			w.becomes(t, nodehealth.Serving)
			api.set("deployments", apiDeployment(map[string]string{v1alpha1.DefaultMarkKey: "m"}))
			w.becomes(t, nodehealth.Marked)
			// It is acknowledged when it is kept, a moment later.
			await.True(t, "the mark is acknowledged", func() bool {
				s := *w.last.Load()
				return nodehealth.Decide(s).Mark == "m" && s.LostAt.IsZero()
			})
			api.set("deployments", apiDeployment(nil))
			w.becomes(t, nodehealth.Serving)
			api.set("pods", nil)
			w.becomes(t, nodehealth.TooFewPodsReady)
			if listed := api.listed > 0; listed != old {
				t.Errorf("lists without a stream: %d", api.listed)
			}
		})
	}
}

// TestFleetThatIsOrphanedGoesOnServing plays kubectl delete --cascade=orphan, and an
// IngressDaemonSet of the same name that takes over what was left.
func TestFleetThatIsOrphanedGoesOnServing(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, nil))
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.Serving)
	orphan := apiDeployment(nil)
	orphan.OwnerReferences = nil
	api.set("deployments", orphan)
	w.hears(t, orphan)
	w.stays(t, nodehealth.Serving)
	taken := with(apiDeployment(nil), func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "another" })
	api.set("deployments", taken)
	w.hears(t, taken)
	w.stays(t, nodehealth.Serving)
	api.set("deployments", nil)
	w.becomes(t, nodehealth.DeploymentMissing)
}

func with[T any](v *T, change func(*T)) *T {
	change(v)
	return v
}

// TestMarkCountsWithoutItsKeyOnRecord removes the record of a mark's key in a turn.
func TestMarkCountsWithoutItsKeyOnRecord(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	const key = "example.com/out"
	api.set("deployments", apiDeployment(map[string]string{v1alpha1.AnnotationMarkKey: key, key: ""}))
	api.set("pods", apiPod(true, true, nil))
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.Marked)
	unrecorded := apiDeployment(map[string]string{key: ""})
	api.set("deployments", unrecorded)
	w.hears(t, unrecorded)
	w.stays(t, nodehealth.Marked)
	api.set("deployments", apiDeployment(nil))
	w.becomes(t, nodehealth.Serving)
}

// TestDeploymentUnderItsOtherName is deleted, created under the name that it has where
// the first is taken, and while a Deployment of somebody else has that.
func TestDeploymentUnderItsOtherName(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	hashed := func() *appsv1.Deployment {
		return with(apiDeployment(nil), func(d *appsv1.Deployment) { d.Name = deploymentNames[1] })
	}
	pod := apiPod(true, true, nil)
	pod.OwnerReferences[0].Name = deploymentNames[1] + "-5d"
	api.set("deployments", hashed())
	api.set("pods", pod)
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.Serving)
	api.set("deployments", nil)
	w.becomes(t, nodehealth.DeploymentMissing)
	foreign := with(apiDeployment(nil), func(d *appsv1.Deployment) { d.OwnerReferences, d.Labels = nil, nil })
	api.set("deployments", foreign)
	w.hears(t, foreign)
	w.stays(t, nodehealth.DeploymentMissing)
	api.set("deployments", hashed())
	w.becomes(t, nodehealth.Serving)
	api.set("deployments", apiDeployment(nil))
	w.becomes(t, nodehealth.TooFewPodsReady)
}

// TestMarkIsAcknowledgedWhenItIsStored, and fails the health check at once, on a disk
// that hangs: whoever opens a FIFO to write waits for somebody who reads.
func TestMarkIsAcknowledgedWhenItIsStored(t *testing.T) {
	t.Parallel()
	api, dir := newFakeAPI(t), t.TempDir()
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, nil))
	w := startWatcher(t, api, dir)
	w.becomes(t, nodehealth.Serving)
	await.True(t, "it sees and has stored that", func() bool {
		s, err := (&stateFile{dir: dir, log: quiet}).read()
		return err == nil && s.LostAt.IsZero()
	})
	hang := filepath.Join(dir, stateName+".new")
	if err := unix.Mkfifo(hang, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Whatever still waits can end: to open it for both never waits.
		if both, err := os.OpenFile(hang, os.O_RDWR, 0); err == nil {
			t.Cleanup(func() { both.Close() })
		}
	})
	api.set("deployments", apiDeployment(map[string]string{v1alpha1.DefaultMarkKey: "m"}))
	w.becomes(t, nodehealth.Marked)
	// It is stored beside: many looks leave time for that to begin.
	for range 20 {
		w.all(t, func(verdict v1alpha1.HealthCheckAnswer) bool { return verdict.Mark == "" })
	}
	reader, err := os.Open(hang)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	await.True(t, "the mark is acknowledged", func() bool { return nodehealth.Decide(*w.last.Load()).Mark == "m" })
	if s, err := (&stateFile{dir: dir, log: quiet}).read(); err == nil && s.Deployment.Mark == nil {
		t.Errorf("what is stored has no mark: %+v", s)
	}
}

func TestWatcherProbesWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	var probed atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probed.Add(1)
		application().ServeHTTP(w, r)
	}))
	probe := pace(httpProbe(portOf(web.Listener.Addr()), "/ok"))
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, probe))
	dir := t.TempDir()
	w := startWatcher(t, api, dir)
	w.becomes(t, nodehealth.Serving)

	api.leave()
	lost := time.Now()
	await.True(t, "it is probed", func() bool { return w.last.Load().Probing })
	before := probed.Load()
	await.True(t, "it is probed again and again", func() bool { return probed.Load() > before+2 })
	w.stays(t, nodehealth.Serving)
	if s := w.last.Load(); s.LostAt.Before(lost.Add(-time.Second)) || s.LostAt.After(lost.Add(time.Second)) {
		t.Errorf("lost at %v, want %v", s.LostAt, lost)
	}
	web.Close()
	w.becomes(t, nodehealth.TooFewPodsReady)
	w.stop()

	// A restart with the API server still away starts from the file.
	begin := time.Now()
	w = startWatcher(t, api, dir)
	select {
	case <-w.Decided():
	case <-time.After(5 * time.Second):
		t.Fatal("it never decided")
	}
	if took := since(begin); took > 2*time.Second {
		t.Errorf("it took %v to decide", took)
	}
	s := w.becomes(t, nodehealth.TooFewPodsReady)
	if s.LostAt.After(lost.Add(time.Second)) {
		t.Errorf("the restart made the API server lost at %v, want %v", s.LostAt, lost)
	}

	// The API server says Ready, but the kubelet cannot have told it yet.
	api.come()
	await.True(t, "the API server is back", func() bool { s := w.last.Load(); return s.LostAt.IsZero() && !s.Cold })
	w.stays(t, nodehealth.TooFewPodsReady)
	api.set("deployments", apiDeployment(map[string]string{v1alpha1.DefaultMarkKey: "m"}))
	w.becomes(t, nodehealth.Marked)
}

// TestWatchThatOpensAndStaysSilentIsNotBelieved plays an API server that returns and
// knows nothing new: Ready is as old as its outage.
func TestWatchThatOpensAndStaysSilentIsNotBelieved(t *testing.T) {
	for name, old := range map[string]bool{"with streamed lists": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(application())
			api := newFakeAPI(t)
			api.old = old
			api.set("deployments", apiDeployment(nil))
			api.set("pods", apiPod(true, true, pace(httpProbe(portOf(web.Listener.Addr()), "/ok"))))
			w := startWatcher(t, api, t.TempDir())
			w.becomes(t, nodehealth.Serving)
			await.True(t, "it is watched", func() bool { return w.last.Load().LostAt.IsZero() && len(w.last.Load().Proven) > 0 })

			api.leave()
			await.True(t, "it is probed", func() bool { return w.last.Load().Probing })
			api.silent.Store(true)
			api.come()
			web.Close()
			w.becomes(t, nodehealth.TooFewPodsReady)
			await.True(t, "all that it asks stays silent", func() bool {
				return int(api.unanswered.Load()) >= len(w.feeds()) && (old || w.watches())
			})
			w.link.age(settleTime + 5*time.Second)
			w.stays(t, nodehealth.TooFewPodsReady)
			if w.last.Load().LostAt.IsZero() {
				t.Error("the API server counts as watched")
			}
		})
	}
}

// age has time pass for what the link has seen.
func (l *link) age(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awayAt, l.settledAt = l.awayAt.Add(-d), l.settledAt.Add(-d)
	if !l.lostAt.IsZero() {
		l.lostAt = l.lostAt.Add(-d)
	}
}

// TestWatchThatEndsInTimeGoesOn lists nothing again: thousands of watches end every
// few minutes.
func TestWatchThatEndsInTimeGoesOn(t *testing.T) {
	f := &feed{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), link: newLink(1, time.Now(), time.Now()), change: func() {}}
	if err := f.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	f.set(func() { f.watching = true })
	f.ended(time.Now().Add(-5*time.Minute), new(int64(300)))
	if !f.mayGoOn() {
		t.Error("a watch that ended in time is not gone on with")
	}
	f.set(func() { f.watching = true })
	f.ended(time.Now().Add(-299*time.Second), new(int64(300)))
	if f.mayGoOn() {
		t.Error("a watch that broke off is gone on with")
	}
}

func TestWatcherProbesPodsOfANodeThatWasCutOff(t *testing.T) {
	t.Parallel()
	var probed atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		application().ServeHTTP(w, r)
		probed.Store(true)
	}))
	probe := pace(httpProbe(portOf(web.Listener.Addr()), "/ok"))
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(false, true, probe))
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.Serving)
	// A probe that never passed once would decide nothing.
	await.True(t, "its own probe has passed", probed.Load)
	web.Close()
	w.becomes(t, nodehealth.TooFewPodsReady)
	api.set("pods", apiPod(true, true, probe))
	if s := w.becomes(t, nodehealth.Serving); len(s.Probed) != 0 {
		t.Errorf("a pod that is believed is still probed: %v", s.Probed)
	}
}

// TestOwnProbeThatNeverPassedDecidesNothing plays a probe that only the kubelet's network
// reaches, in an outage of the API server that all nodes see at once.
func TestOwnProbeThatNeverPassedDecidesNothing(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, pace(httpProbe(closedPort(t), "/ok"))))
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.Serving)
	api.leave()
	await.True(t, "its own probe has failed", func() bool {
		ready, probed := w.last.Load().Probed[nodehealth.Container{Pod: "a", Name: "app"}]
		return probed && !ready
	})
	w.stays(t, nodehealth.Serving)
}

func TestWatcherWithoutFileAndAPIServerDoesNotDecide(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	api.leave()
	w := startWatcher(t, api, t.TempDir())
	select {
	case <-w.Decided():
		t.Error("it decided from nothing")
	case <-time.After(500 * time.Millisecond):
	}
	w.becomes(t, nodehealth.Starting)
	api.come()
	<-w.Decided()
	w.becomes(t, nodehealth.DeploymentMissing)
}

func TestColdStartDecidesWhenAllIsProbed(t *testing.T) {
	t.Parallel()
	asked, answered := make(chan struct{}, 1), make(chan struct{})
	answer := sync.OnceFunc(func() { close(answered) })
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-answered
	}))
	defer web.Close()
	defer answer()
	probe := pace(httpProbe(portOf(web.Listener.Addr()), "/ok"))
	probe.TimeoutSeconds = 20
	stored, dir := serving(), t.TempDir()
	stored.Pods[0] = nodehealth.Pod{UID: "a", IP: "127.0.0.1", GatesPassed: true, Containers: []nodehealth.ContainerState{{Name: "app", Probe: probe}}}
	(&stateFile{dir: dir, log: quiet}).save(stored)
	api := newFakeAPI(t)
	api.leave()
	w := startWatcher(t, api, dir)
	<-asked
	w.stays(t, nodehealth.TooFewPodsReady)
	select {
	case <-w.Decided():
		t.Error("it decided before all was probed")
	default:
	}
	answer()
	<-w.Decided()
	if got := nodehealth.Decide(*w.last.Load()); !got.Serving {
		t.Errorf("it decided on %+v", got)
	}
}

func TestWatcherEndsSoonWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t)
	w := startWatcher(t, api, t.TempDir())
	w.becomes(t, nodehealth.DeploymentMissing)
	api.leave()
	await.True(t, "it waits for 2 s and more before it asks again", func() bool {
		w.pods.mu.Lock()
		defer w.pods.mu.Unlock()
		// The next time it is twice as long.
		return w.pods.retry != nil && w.pods.retry.Duration >= 4*time.Second
	})
	begin := time.Now()
	w.stop()
	if took := since(begin); took > time.Second {
		t.Errorf("it took %v to end", took)
	}
}

func TestWatcherPrefersTheAPIServerToTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	(&stateFile{dir: dir, log: quiet}).save(marked("old"))
	api := newFakeAPI(t)
	api.set("deployments", apiDeployment(nil))
	api.set("pods", apiPod(true, true, nil))
	w := startWatcher(t, api, dir)
	<-w.Decided()
	if got := nodehealth.Decide(*w.last.Load()); !got.Serving {
		t.Errorf("it decided on %+v", got)
	}
}
