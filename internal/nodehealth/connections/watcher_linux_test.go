package connections

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
)

// watch watches the ports until the test ends.
func watch(t *testing.T, ports ...*port) *Watcher {
	t.Helper()
	var numbers []uint16
	for _, p := range ports {
		numbers = append(numbers, p.number)
	}
	w := New(numbers, silent)
	t.Cleanup(w.Close)
	w.known(t)
	return w
}

// told is what is told of the first port.
func (w *Watcher) told(t *testing.T) v1alpha1.PortConnections {
	t.Helper()
	all := w.Connections(t.Context())
	if len(all) != len(w.ports) {
		t.Fatalf("%d ports are told of, want %d", len(all), len(w.ports))
	}
	return all[0]
}

// known awaits that something is known of the first port.
func (w *Watcher) known(t *testing.T) (p v1alpha1.PortConnections) {
	t.Helper()
	await.True(t, "connections are known", func() bool {
		p = w.told(t)
		return p.Unknown == ""
	})
	return p
}

// seen is how many new connections were seen so far.
func (w *Watcher) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session.ledger.seen
}

func TestWatch(t *testing.T) {
	t.Parallel()
	p, other := listen(t, over4), listen(t, over4)
	w := watch(t, p, other)
	if first := w.told(t); first.Port != int32(p.number) || first.Open != 0 {
		t.Errorf("first told: %+v", first)
	}
	peer, here := p.pair(t)
	await.True(t, "it is quiet although a connection is open", func() bool {
		told := w.told(t)
		return told.Unknown == "" && told.Open == 1 && told.QuietSeconds > 1
	})
	peer.Close()
	closed(t, here)
	await.True(t, "none is open", func() bool {
		told := w.told(t)
		return told.Unknown == "" && told.Open == 0
	})
	for range 300 {
		short["closed here"](t, p)
	}
	await.True(t, "every connection is seen", func() bool {
		w.told(t)
		return w.seen() >= 301
	})
	all := w.Connections(t.Context())
	if all[1].QuietSeconds <= all[0].QuietSeconds {
		t.Errorf("told: %+v", all)
	}
}

// TestCountReadsWhatWaits tells of nothing before the notices are read that came
// during the dump.
func TestCountReadsWhatWaits(t *testing.T) {
	p := listen(t, over4)
	k := open(t, receiveBuffer, p.number)
	w := New(k.ports, silent)
	s := &session{ledger: newLedger(k.ports), tellOnce: func() {}}
	short["closed here"](t, p)
	await.True(t, "the connection is seen", func() bool {
		if err := w.count(s, k, nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		return s.ledger.seen == 1
	})
}

func TestShortConnectionEndsTheQuiet(t *testing.T) {
	t.Parallel()
	p := listen(t, over4)
	w := watch(t, p)
	await.True(t, "it is quiet", func() bool { return w.told(t).QuietSeconds > 2 })
	before := w.told(t).QuietSeconds
	short["closed here"](t, p)
	await.True(t, "the quiet is over", func() bool { return w.told(t).QuietSeconds < before })
}

// TestLostNotices makes notices come faster than they are read.
func TestLostNotices(t *testing.T) {
	t.Parallel()
	p := listen(t, over4)
	w := New([]uint16{p.number}, silent)
	w.receiveBuffer = 1 // the kernel makes it the least that there is
	t.Cleanup(w.Close)
	await.True(t, "it is quiet", func() bool { return w.known(t).QuietSeconds > 2 })

	var lost v1alpha1.PortConnections
	var begun time.Time
	await.True(t, "it is unknown", func() bool {
		w.mu.Lock() // nothing is read any more after the next notice
		begun = time.Now()
		for range 20 {
			short["closed here"](t, p)
		}
		delivered(t)
		w.mu.Unlock()
		_ = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, interval/2, true, func(context.Context) (bool, error) {
			lost = w.told(t)
			return lost.Unknown != "", nil
		})
		return lost.Unknown != ""
	})
	if !strings.Contains(lost.Unknown, errOverrun.Error()) || lost.QuietSeconds != 0 || lost.Open != 0 {
		t.Errorf("told: %+v", lost)
	}
	if again := w.known(t); again.QuietSeconds > time.Since(begun).Seconds() {
		t.Errorf("told after notices were lost: %+v", again)
	}
}

func TestPace(t *testing.T) {
	for spent, want := range map[time.Duration]time.Duration{
		0: interval, time.Millisecond: interval, 34 * time.Millisecond: 6800 * time.Millisecond, time.Second: longest,
	} {
		if got := intervalAfter(spent); got != want {
			t.Errorf("%v of processor time: %v, want %v", spent, got, want)
		}
	}
}

func TestCannotBeWatched(t *testing.T) {
	w := New(make([]uint16, 5000), silent) // the kernel refuses a filter for so many
	t.Cleanup(w.Close)
	if told := w.told(t); told.Unknown == "" || told.QuietSeconds != 0 {
		t.Errorf("told: %+v", told)
	}
}

func TestWatchesOnlyWhileSomebodyAsks(t *testing.T) {
	t.Parallel()
	p := listen(t, over4)
	w := New([]uint16{p.number}, silent)
	w.patience = 100 * time.Millisecond
	t.Cleanup(w.Close)
	idle := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.session == nil
	}
	if !idle() {
		t.Error("it watches before it is asked")
	}
	for range 2 {
		p.dial(t)
		if told := w.known(t); told.Open == 0 || told.QuietSeconds != 0 {
			t.Errorf("first told: %+v", told)
		}
		await.True(t, "it stops", idle)
		w.running.Wait()
	}
}

func TestClosed(t *testing.T) {
	p := listen(t, over4)
	w := watch(t, p)
	begun := time.Now()
	w.Close()
	if told := w.told(t); told.Unknown != errEnds.Error() {
		t.Errorf("told: %+v", told)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
	w.Close()
}
