package controller

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func podAt(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

// TestACacheIsBehindUntilItShowsAll compares the cache of one namespace, of Nodes, or of
// TargetGroupAttachments, with what the API server has, until nothing is missing in it, of before, or gone.
func TestACacheIsBehindUntilItShowsAll(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a", ResourceVersion: "7"}}
	for name, c := range map[string]struct {
		of           string
		live, cached []client.Object
		behind       bool
	}{
		"it shows all":          {"ns", []client.Object{podAt("a", "7")}, []client.Object{podAt("a", "7")}, false},
		"it shows a newer one":  {"ns", []client.Object{podAt("a", "9")}, []client.Object{podAt("a", "10")}, false},
		"one is gone":           {"ns", nil, []client.Object{podAt("a", "7")}, true},
		"one is missing":        {"ns", []client.Object{podAt("a", "7"), podAt("b", "8")}, []client.Object{podAt("a", "7")}, true},
		"one is older":          {"ns", []client.Object{podAt("a", "10")}, []client.Object{podAt("a", "9")}, true},
		"a Node is missing":     {"", []client.Object{node}, nil, true},
		"only a pod is":         {"", []client.Object{node, podAt("a", "7")}, []client.Object{node}, false},
		"an attachment is":      {allAttachments, []client.Object{named("web")}, []client.Object{podAt("a", "7")}, true},
		"no attachment is":      {allAttachments, []client.Object{podAt("a", "7")}, nil, false},
		"an attachment is gone": {allAttachments, []client.Object{podAt("a", "7")}, []client.Object{named("web")}, true},
		"an Attachment is":      {allNodeAttachments, []client.Object{&v1alpha1.Attachment{ObjectMeta: node.ObjectMeta}}, []client.Object{node, named("web")}, true},
		"no Attachment is":      {allNodeAttachments, []client.Object{node, named("web")}, nil, false},
		"only a Node is":        {"ns", []client.Object{node, podAt("a", "7")}, []client.Object{podAt("a", "7")}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			triggered, live, cached := 0, fakeapi.New(t, c.live...), fakeapi.New(t, c.cached...)
			caches := newCaches(cached, live, func() { triggered++ })
			if !caches.behind(c.of) {
				t.Errorf("%s: it was never compared", name)
			}
			caches.catchUp(ctx, c.of)
			time.Sleep(10 * lookAgain)
			synctest.Wait()
			if caches.behind(c.of) != c.behind || (triggered == 0) != c.behind {
				t.Errorf("%s: behind %t, %d passes are called for", name, caches.behind(c.of), triggered)
			}
			if !c.behind {
				return
			}
			// What it did not show is gone, and what was gone is shown to be.
			for _, o := range c.live {
				if err := live.Delete(ctx, o); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range c.cached {
				if err := cached.Delete(ctx, o); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * lookAgain)
			synctest.Wait()
			if caches.behind(c.of) || triggered != 1 {
				t.Errorf("%s: behind %t in the end, %d passes are called for", name, caches.behind(c.of), triggered)
			}
		})
	}
}

// unlistable fails with each error in turn, and answers for an empty cluster thereafter.
type unlistable struct {
	client.Reader
	errs []error
}

func (u *unlistable) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if len(u.errs) == 0 {
		return u.Reader.List(ctx, list, o...)
	}
	err := u.errs[0]
	u.errs = u.errs[1:]
	return err
}

// churning has at each look a pod that was not there before, and the last one no more.
type churning struct {
	client.Client
	looks int
}

func (c *churning) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	c.looks++
	if last := podAt("churn-"+strconv.Itoa(c.looks-1), ""); c.looks > 1 {
		if err := c.Delete(ctx, last); err != nil {
			return err
		}
	}
	if err := c.Create(ctx, podAt("churn-"+strconv.Itoa(c.looks), "")); err != nil {
		return err
	}
	return c.Client.List(ctx, list, o...)
}

// TestANamespaceThatNeverRests has its cache taken for complete when it shows what was there at
// first, but not before.
func TestANamespaceThatNeverRests(t *testing.T) {
	for missing, pods := range map[bool][]client.Object{false: nil, true: {podAt("a", "")}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			caches := newCaches(fakeapi.New(t), &churning{Client: fakeapi.New(t, pods...)}, func() {})
			caches.catchUp(ctx, "ns")
			time.Sleep(10 * lookAgain)
			synctest.Wait()
			if caches.behind("ns") != missing {
				t.Errorf("a pod is missing: %t, behind: %t", missing, caches.behind("ns"))
			}
		})
	}
}

// TestAFailingComparisonIsTold once for each other error, since every call may wait for it.
func TestAFailingComparisonIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		logger := funcr.New(func(_, args string) { told = append(told, args) }, funcr.Options{})
		refused, down := errors.New("refused"), errors.New("down")
		caches := newCaches(fakeapi.New(t), &unlistable{fakeapi.New(t), []error{refused, refused, refused, down, down}}, func() {})
		caches.catchUp(log.IntoContext(t.Context(), logger), allAttachments)
		time.Sleep(10 * lookAgain)
		synctest.Wait()
		if len(told) != 2 || !strings.Contains(told[0], "refused") || !strings.Contains(told[1], "down") || caches.behind(allAttachments) {
			t.Errorf("told %q, behind %t", told, caches.behind(allAttachments))
		}
	})
}

// TestACacheThatIsLate says why after a while, calls for a pass when that is so and when it is
// another reason, and says nothing any more when it shows all.
func TestACacheThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		triggered := atomic.Int32{}
		live := &unlistable{fakeapi.New(t, podAt("a", "7")), slices.Repeat([]error{errors.New("refused")}, 20)}
		caches := newCaches(fakeapi.New(t), live, func() { triggered.Add(1) })
		caches.catchUp(ctx, "ns")
		for _, at := range []struct {
			after     time.Duration
			want      string
			triggered int32
		}{
			{tellAfter - lookAgain/2, "", 0}, {lookAgain, "comparing with the API server fails: listing live: refused", 1},
			{10 * lookAgain, "the API server has what has not come by the watch", 2},
		} {
			time.Sleep(at.after)
			synctest.Wait()
			if got := caches.isLate("ns"); got != at.want || triggered.Load() != at.triggered {
				t.Errorf("%s later: %q, want %q, %d passes are called for", at.after, got, at.want, triggered.Load())
			}
		}
		if err := live.Reader.(client.Client).Delete(ctx, podAt("a", "7")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookAgain)
		synctest.Wait()
		if got := caches.isLate("ns"); got != "" || triggered.Load() != 3 {
			t.Errorf("in the end: %q, %d passes are called for", got, triggered.Load())
		}
	})
}

// reconcileFor reconciles for a while, whenever a pass is triggered.
func reconcileFor(t *testing.T, d time.Duration, r *Reconciler, triggers <-chan struct{}) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		result, err := r.Reconcile(t.Context(), onepass.Everything)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-triggers:
		case <-time.After(min(result.RequeueAfter, time.Second)):
		}
	}
}

// TestAPodThatAnotherLeaderSawStays leaves its target in while the cache does not show the pod,
// and takes it out when the pod is gone.
func TestAPodThatAnotherLeaderSawStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		web := named("web", v1alpha1.Finalizer)
		web.Spec = v1alpha1.TargetGroupAttachmentSpec{TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "ip", Port: intstr.FromInt32(80), PodSelector: &metav1.LabelSelector{}}
		web.Status.Groups = []v1alpha1.AttachedGroup{{ID: "arn:web", Balancer: "network", Targets: []string{"10.0.0.8:80", "10.0.0.9:80"}}}
		serving := func(name, address string) *corev1.Pod {
			p := podAt(name, "")
			p.Spec.NodeName, p.Status.PodIPs = "node-a", []corev1.PodIP{{IP: address}}
			return p
		}
		cache := fakeapi.New(t, web, serving("old", "10.0.0.8"))
		live := fakeapi.New(t, web.DeepCopy(), serving("old", "10.0.0.8"), serving("new", "10.0.0.9"))
		cloud := &groupInMemory{kind: targets.IP, targets: map[targets.Target]targets.Health{}}
		for _, id := range []string{"10.0.0.8", "10.0.0.9"} {
			cloud.targets[targets.Target{ID: id, Port: 80}] = targets.Health{Condition: targets.Healthy}
		}
		r, triggers := loopOf(ctx, cache, live, cloud)
		reconcileFor(t, time.Minute, r, triggers)
		if !cloud.has("10.0.0.9") {
			t.Error("a pod that serves is taken out")
		}
		if err := live.Delete(ctx, serving("new", "10.0.0.9")); err != nil {
			t.Fatal(err)
		}
		reconcileFor(t, time.Minute, r, triggers)
		if cloud.has("10.0.0.9") || !cloud.has("10.0.0.8") {
			t.Error("a pod that is gone stays, or one that serves is taken out")
		}
	})
}

// zonal is a group whose clients reach no targets of another zone.
type zonal struct{ *groupInMemory }

func (zonal) Describe(_ context.Context, g targets.Group) (targets.Group, error) {
	g.CrossZone = false
	return g, nil
}

// TestTheZonesOfNodesAreReadFirst leaves what may be the last healthy target of a zone in while the
// cache does not show the Nodes that tell of others, and takes it out where another serves there.
func TestTheZonesOfNodesAreReadFirst(t *testing.T) {
	nodeOf := func(name, instance, zone string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "10", Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		if instance == "" {
			n.ResourceVersion = "9"
			return n
		}
		n.Spec.ProviderID = "aws:///" + zone + "/" + instance
		return n
	}
	for name, c := range map[string]struct {
		instance, zone string
		out            bool
	}{"of its zone": {"i-b", "z1", true}, "of another zone": {"i-b", "z2", false}, "no Node's": {"i-c", "z2", true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1", Generation: 1}, Spec: v1alpha1.AttachmentSpec{Instance: "i-a", Wanted: v1alpha1.WantDetached}}
			known, unnamed, named := nodeOf("node-a", "i-a", "z1"), nodeOf("node-b", "", c.zone), nodeOf("node-b", c.instance, c.zone)
			cache, live := fakeapi.New(t, a, known, unnamed), fakeapi.New(t, a.DeepCopy(), known.DeepCopy(), named)
			cloud := &groupInMemory{targets: healthy("i-a", "i-b")}
			r, triggers := loopOf(ctx, cache, live, zonal{cloud})
			r.Detaching = true
			reconcileFor(t, time.Minute, r, triggers)
			if !cloud.has("i-a") {
				t.Errorf("the other one is %s: it is taken out before that is known", name)
			}
			shown := named.DeepCopy()
			shown.ResourceVersion = unnamed.ResourceVersion
			if err := cache.Update(ctx, shown); err != nil {
				t.Fatal(err)
			}
			reconcileFor(t, time.Minute, r, triggers)
			if cloud.has("i-a") == c.out || !cloud.has("i-b") {
				t.Errorf("the other one is %s: it is registered: %t", name, cloud.has("i-a"))
			}
		})
	}
}
