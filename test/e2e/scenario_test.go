package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/harness"
	"github.com/mumoshu/ingress-daemonset-controller/test/lb"
	"github.com/mumoshu/ingress-daemonset-controller/test/traffic"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// rate is how many requests a second are sent where the machine can, and enough how many
	// in all: of so many the controls lose dozens, however slow the machine is.
	rate, enough = 2500, 10_000

	patient = 6 * time.Minute
)

// scenario is a rollout under traffic.
type scenario struct {
	// example is a file of examples/, adjust changes its IngressDaemonSet before
	// it is applied.
	example string
	adjust  func(*v1alpha1.IngressDaemonSet)
	// others changes the other objects of the example for its namespace; nil for nothing.
	others func(m harness.Manifest, namespace string) error
	// verbatim applies the example as it stands, account is a service account that
	// it needs.
	verbatim bool
	account  string
	// told is how the load balancer learns which nodes to avoid, untold how it is
	// kept from learning it in the control.
	told, untold harness.Ports
	// detacher takes nodes out of the load balancer for their annotation.
	detacher bool
	// during runs while the rollout is under way; nil for nothing.
	during func(context.Context, *testing.T, *harness.Fleet, *lb.LB) error
	// next changes the IngressDaemonSet with the rollout, so that in the control such pods end; nil for nothing.
	next func(*v1alpha1.IngressDaemonSet)
	// final is the version that nodes end with, v2 where it is empty.
	final string
}

// run runs the scenario, then its control on the same fleet.
func (s scenario) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	fleet := s.open(ctx, t)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	story := fleet.Tell(watching)
	report := s.underTraffic(ctx, t, fleet, s.told, story, func(front *lb.LB, _ *traffic.Process) error { return s.rollOut(ctx, t, fleet, front) })
	losesNothing(t, report)
	if t.Failed() {
		return
	}
	stop()
	control := s.underTraffic(ctx, t, fleet, s.untold, nil, func(_ *lb.LB, client *traffic.Process) error { return loses(ctx, fleet, client) })
	t.Logf("control: %d of %d requests failed", control.Failed, control.Requests)
	if control.Failed == 0 {
		t.Errorf("the control lost nothing of %d requests, so that the test proves nothing", control.Requests)
	}
}

// losesNothing fails the test where a request failed, or few were sent.
func losesNothing(t *testing.T, report traffic.Report) {
	t.Helper()
	t.Logf("%d requests in %.0f s, %d failed", report.Requests, report.Elapsed.Seconds(), report.Failed)
	if report.Failed != 0 {
		t.Errorf("%d of %d requests failed:\n%s", report.Failed, report.Requests, report)
	}
	if report.Requests < enough {
		t.Errorf("fewer than %d requests were sent: %s", enough, report)
	}
}

// underTraffic sends requests through a load balancer in front of the nodes while act runs.
// There is a story where the load balancer is told.
func (s scenario) underTraffic(ctx context.Context, t *testing.T, fleet *harness.Fleet, ports harness.Ports, story *harness.Story, act func(*lb.LB, *traffic.Process) error) traffic.Report {
	t.Helper()
	front, err := fleet.Front(ctx, ports)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Stop()
	if s.detacher {
		defer detacher{harness: fleet.Harness, front: front, idle: story == nil}.start(ctx, t)()
	}
	client, err := fleet.Send(ctx, rate)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	time.Sleep(2 * time.Second)
	if err := act(front, client); err != nil {
		t.Error(err)
	}
	report, err := client.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if story != nil && (t.Failed() || report.Failed > 0) {
		t.Log("what happened:\n" + happened(story, front.Log()))
		t.Log("connections that nobody answered:\n" + unanswered(ctx, fleet.Harness))
		t.Log("what the load balancer lost first:\n" + strings.Join(lost(front.Log()), "\n"))
	}
	return report
}

// happened is the story with the load balancer's log of its servers.
func happened(story *harness.Story, log string) string {
	lines := story.Lines()
	for line := range strings.Lines(log) {
		if strings.Contains(line, " Server ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// lost are the first requests that went wrong by the load balancer's log, with how their
// sessions ended, and the number of all.
func lost(log string) []string {
	const most = 5
	var lines []string
	requests := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, " Server ") {
			continue
		}
		if requests++; requests <= most {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return append(lines, fmt.Sprintf("%d lines of the log are about requests", requests))
}

// unanswered lists where nodes sent connections that got no answer, and how many.
func unanswered(ctx context.Context, on *harness.Harness) string {
	var out strings.Builder
	for _, node := range on.Nodes() {
		list, err := node.Command(ctx, "conntrack", "-L", "-p", "tcp", "--state", "SYN_SENT").Output()
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", node.Name(), err)
			continue
		}
		counts := map[string]int{}
		for line := range strings.Lines(string(list)) {
			if fields := unansweredBy.FindStringSubmatch(line); fields != nil {
				counts[fields[1]]++
			}
		}
		fmt.Fprintf(&out, "%s: %v\n", node.Name(), counts)
	}
	return out.String()
}

// unansweredBy finds the address that the answer should have come from.
var unansweredBy = regexp.MustCompile(`\[UNREPLIED\] src=(\S+)`)

// loses rolls out once more, and again where nothing was lost: of a proxy that ends well a rollout loses few requests, or
// none. It returns when a request was lost, at the latest when every node serves after the last one.
func loses(ctx context.Context, fleet *harness.Fleet, client *traffic.Process) error {
	const rollouts = 3
	for i := 0; i < rollouts && client.Snapshot().Failed == 0; i++ {
		if err := losesOnce(ctx, fleet, client, fmt.Sprint("control-", i)); err != nil {
			return err
		}
	}
	return nil
}

func losesOnce(ctx context.Context, fleet *harness.Fleet, client *traffic.Process, version string) error {
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion(version)(set)
		shorten(set)
	}); err != nil {
		return err
	}
	return harness.Wait(ctx, "a request to be lost, or the rollout to end", func() (bool, error) {
		if client.Snapshot().Failed > 0 {
			return true, nil
		}
		set, err := fleet.Set(ctx)
		return err == nil && harness.Complete(set.Generation, set.Status), err
	})
}

// open applies the example to a namespace of its own and waits until it serves.
func (s scenario) open(ctx context.Context, t *testing.T) *harness.Fleet {
	t.Helper()
	fleet := s.apply(ctx, t)
	if err := fleet.WaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	return fleet
}

func (s scenario) apply(ctx context.Context, t *testing.T) *harness.Fleet {
	t.Helper()
	namespace := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	manifest, err := theHarness.Example(s.example)
	if err != nil {
		t.Fatal(err)
	}
	if s.others != nil {
		if err := s.others(manifest, namespace); err != nil {
			t.Fatal(err)
		}
	}
	if err := theHarness.MakeNamespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(t, namespace) })
	fleet := &harness.Fleet{Harness: theHarness, Key: types.NamespacedName{
		Namespace: namespace, Name: manifest.Kind("IngressDaemonSet").GetName()}}
	if !s.verbatim {
		if err := manifest.AdjustSet(s.adjusted); err != nil {
			t.Fatal(err)
		}
	}
	if s.account != "" {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.account}}
		if err := theHarness.Create(ctx, account); err != nil {
			t.Fatal(err)
		}
	}
	if err := theHarness.Apply(ctx, namespace, manifest); err != nil {
		t.Fatal(err)
	}
	return fleet
}

func (s scenario) adjusted(set *v1alpha1.IngressDaemonSet) {
	shorten(set)
	if s.adjust != nil {
		s.adjust(set)
	}
}

// shorten shortens the graces, which the examples make long enough for load
// balancers that check every few seconds and for busy nodes, and the time that a proxy has to stop:
// HAProxy misses a stop signal that comes while it starts.
func shorten(set *v1alpha1.IngressDaemonSet) {
	grace := int32(3)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(20))
	set.Spec.MinReadySeconds = min(set.Spec.MinReadySeconds, grace)
	u := set.Spec.UpdateStrategy.RollingUpdate
	if a := u.AnnotateDeploymentToDetach; a != nil {
		a.GracePeriodSeconds = &grace
	}
	if a := u.AnnotateNodeToDetach; a != nil && a.GracePeriodSeconds != nil {
		a.GracePeriodSeconds = &grace
	}
	if w := u.WaitForDetachmentByAnnotatedTimestamp; w != nil {
		w.GracePeriodSeconds = &grace
		u.AttachGracePeriodSeconds = &grace
	}
}

func (s scenario) close(t *testing.T, namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := theHarness.RemoveNamespace(ctx, namespace); err != nil {
		t.Error(err)
	}
	if s.detacher {
		if err := clearTimestamps(ctx, theHarness); err != nil {
			t.Error(err)
		}
	}
}

// rollOut changes the template and sees the change through.
func (s scenario) rollOut(ctx context.Context, t *testing.T, fleet *harness.Fleet, front *lb.LB) error {
	before, err := fleet.Pods(ctx)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	failed := fleet.WatchFailed(watching)
	defer func() {
		if n, example := failed.Count(); n > 0 {
			t.Errorf("%d pods were Failed, such as %s", n, example)
		}
	}()
	if err := fleet.Change(ctx, func(set *v1alpha1.IngressDaemonSet) {
		harness.SetVersion("v2")(set)
		if s.next != nil {
			s.next(set)
		}
	}); err != nil {
		return err
	}
	if s.during != nil {
		if err := s.during(ctx, t, fleet, front); err != nil {
			return err
		}
	}
	if err := fleet.WaitServing(ctx); err != nil {
		return err
	}
	// The last node gets requests again.
	time.Sleep(3 * time.Second)
	if s.final != "" {
		return fleet.CheckUnmarked(ctx)
	}
	return fleet.CheckReplaced(ctx, before)
}

// pause waits for a random time between the two.
func pause(ctx context.Context, least, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(least + rand.N(most-least)):
	}
}
