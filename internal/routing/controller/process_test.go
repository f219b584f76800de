package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestStatusOfNodes: without a Service that leads to it from outside, an IngressDaemonSet is reached at the nodes
// that serve, and where none does, at those that did: an empty list takes its name out of DNS.
func TestStatusOfNodes(t *testing.T) {
	first, second := deploymentOn("n1"), deploymentOn("n2")
	c := newCluster(t, true, ingressTo("cheese", "cheese.example.com", "cheese"), nodeAt("n1", "192.0.2.7"), nodeAt("n2", "192.0.2.8"), first, second)
	set := c.setOf(t)
	set.Spec.ServiceName = ""
	c.put(t, set)
	c.pass(t)
	if got := c.addresses(t); got != "192.0.2.7 192.0.2.8" {
		t.Errorf("the status has %q", got)
	}
	for _, pods := range []*appsv1.Deployment{first, second} {
		pods.Annotations[v1alpha1.DefaultMarkKey] = ""
		c.put(t, pods)
		c.pass(t, pods, c.ingress(t))
		if got := c.addresses(t); got != "192.0.2.8" {
			t.Errorf("when the health checks of %s were told to fail the status has %q", pods.Name, got)
		}
	}
	if got := c.ingress(t).Annotations[routing.AnnotationAddresses]; got != "192.0.2.8" {
		t.Errorf("on record is %q", got)
	}
}

func nodeAt(name, address string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: named("", name)}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	return n
}

// deploymentOn is that of web on a node, with a ready pod.
func deploymentOn(node string) *appsv1.Deployment {
	d, yes := &appsv1.Deployment{ObjectMeta: named(web.Namespace, "web-"+node)}, true
	d.Labels, d.Annotations = map[string]string{v1alpha1.LabelName: web.Name}, map[string]string{v1alpha1.AnnotationNode: node}
	d.OwnerReferences = []metav1.OwnerReference{{Kind: v1alpha1.Kind.Kind, Name: web.Name, UID: "web-uid", Controller: &yes}}
	d.Status.ReadyReplicas = 1
	return d
}

// TestStatusAfterRestart: another process knows which entries the one before wrote, takes these away when they
// hold no more, and leaves those of others, also one that is equal to its own.
func TestStatusAfterRestart(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "198.51.100.9"}, {IP: "192.0.2.2"}}
	api := fakeapi.New(t, append(base(), in)...)
	entry := &corev1.Service{}
	for _, step := range []struct {
		external []string
		want     string
	}{
		{[]string{"192.0.2.1", "192.0.2.2"}, "192.0.2.1 198.51.100.9 192.0.2.2"},
		{[]string{"192.0.2.3"}, "192.0.2.3 198.51.100.9 192.0.2.2"},
		{[]string{"192.0.2.3"}, "192.0.2.3 198.51.100.9 192.0.2.2"},
		// Nobody knows where it is reached then.
		{nil, "192.0.2.3 198.51.100.9 192.0.2.2"},
	} {
		c := replicaOf(t, api, true)
		if err := api.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: web.Namespace, Name: "entry"}, entry); err != nil {
			t.Fatal(err)
		}
		entry.Spec.ExternalIPs = step.external
		c.put(t, entry)
		c.pass(t)
		if got := c.addresses(t); got != step.want {
			t.Errorf("reached at %v, the status has %s, want %s", step.external, got, step.want)
		}
	}
	wrote := slices.DeleteFunc(api.Writes(), func(write string) bool { return write != "update Ingress/status cheese" })
	if len(wrote) != 2 {
		t.Errorf("the status was written %d times", len(wrote))
	}
}

// holder is a proxy that serves what it was told.
type holder struct {
	*holdings.Holdings
	table *table.Table
}

// take takes the next transaction.
func (h *holder) take(t *testing.T, p proxy) {
	t.Helper()
	stream := p.open(t)
	r, err := stream.Receive()
	if err == nil {
		err = stream.Send(h.Take(r, func(c table.Changes) table.Result {
			result := h.table.Apply(c)
			h.table = result.Table
			return result
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// presents reports whether a client that asks for the cheese is presented a certificate for it.
func (h *holder) presents() string {
	c := h.table.Certificate(netip.MustParseAddr("192.0.2.1"), 443, "cheese.example.com")
	if c == nil {
		return ""
	}
	return strings.Join(c.Leaf.DNSNames, " ")
}

// TestSecretUnreadable: a Secret that nobody may read holds up nothing for ever. A proxy that has its certificate
// from before goes on presenting it, all others are told the rest, and an event says so, once. When it can be
// read, it is told.
func TestSecretUnreadable(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"cheese.example.com"}, SecretName: "named"}}
	c := newCluster(t, true, in, slice("10.1.0.1"), certificate(t, "named", "cheese.example.com"))
	c.pass(t)
	c.awaken(t)
	old := &holder{holdings.New(), &table.Table{}}
	old.take(t, c.proxyWith(t, old.Ask("web-0")))
	if got := old.presents(); got != "cheese.example.com" {
		t.Fatalf("presented is %q", got)
	}

	next := replicaOf(t, c.API, true)
	next.forbid(true)
	next.secrets.patience = 0
	oldAgain, fresh := next.proxyWith(t, old.Ask("web-0")), next.proxy(t)
	next.pass(t)
	next.awaken(t)
	old.take(t, oldAgain)
	if got := old.presents(); got != "cheese.example.com" {
		t.Errorf("what was told before is not presented any more, but %q", got)
	}
	if got := fresh.hear(t); !strings.Contains(got, "route/") || strings.Contains(got, "certificate/") {
		t.Errorf("told is %s", got)
	}
	// What it has outlasts its own restart.
	restarted := &holder{holdings.New(), &table.Table{}}
	restarted.Take(old.All(), func(c table.Changes) table.Result {
		result := restarted.table.Apply(c)
		restarted.table = result.Table
		return result
	})
	if got := restarted.presents(); got != "cheese.example.com" {
		t.Errorf("from its snapshot it presents %q", got)
	}
	next.pass(t)
	if said := next.said(); len(said) != 1 || !strings.Contains(said[0], "cannot be read") {
		t.Errorf("events are %q", said)
	}

	c.put(t, certificate(t, "named", "cheese.example.com"))
	next.forbid(false)
	next.awaken(t)
	if got := fresh.hear(t); got != "certificate/shop/named" {
		t.Errorf("when it can be read, told is %s", got)
	}
	old.take(t, oldAgain)
	if got := old.presents(); got != "cheese.example.com" {
		t.Errorf("when it can be read, presented is %q", got)
	}
}

// TestSecretsPatience: a Secret is given up ten seconds after it was wanted first, whatever the API server does
// meanwhile: it refuses, or it does not answer. When it answers, that is told, too.
func TestSecretsPatience(t *testing.T) {
	n := types.NamespacedName{Namespace: "shop", Name: "named"}
	for _, mode := range []string{"absent", "forbidden", "hangs"} {
		synctest.Test(t, func(t *testing.T) {
			live, begun := &moody{mode: mode}, time.Now()
			var told []time.Duration
			r := New(t.Context(), Options{}, nil, live, nil, func() { told = append(told, time.Since(begun)) }, func() {})
			observe := func() (gone int, why string) {
				time.Sleep(time.Minute)
				synctest.Wait()
				o := &observed{unreadable: map[types.NamespacedName]string{}}
				r.secrets.observe(refOfSecret(n), o)
				return len(o.gone), o.unreadable[n]
			}
			r.secrets.want([]types.NamespacedName{n})
			gone, why := observe()
			switch {
			case mode == "absent" && (gone != 1 || why != "" || len(told) != 1 || told[0] != 0):
				t.Errorf("%s: told after %v, gone %d, unreadable %q", mode, told, gone, why)
			case mode != "absent" && (gone != 0 || why == "" || len(told) != 1 || told[0] != 10*time.Second):
				t.Errorf("%s: told after %v, gone %d, unreadable %q", mode, told, gone, why)
			}
			if mode == "forbidden" {
				live.become("absent")
				if gone, why = observe(); gone != 1 || why != "" || len(told) != 2 {
					t.Errorf("answered later: told after %v, gone %d, unreadable %q", told, gone, why)
				}
			}
			told = nil
			live.become("forbidden")
			r.secrets.want(nil)
			r.secrets.want([]types.NamespacedName{n})
			time.Sleep(9 * time.Second)
			r.secrets.want(nil)
			tries := live.tries()
			if observe(); len(told) != 0 || live.tries() != tries {
				t.Errorf("%s: when nobody wants it, told after %v, and tried %d times", mode, told, live.tries()-tries)
			}
		})
	}
}

// TestHangingWrite: a write that gets no answer is given up, and keeps no other from being made, nor proxies from
// being told what changes meanwhile.
func TestHangingWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New(t, append(base(), ingressTo("a", "a.example.com", "cheese"), ingressTo("b", "b.example.com", "cheese"))...)
		server := delta.NewServer(delta.Options{})
		writes := 0
		r := New(t.Context(), Options{Server: server}, silent{api}, api, events.NewFakeRecorder(100), func() {}, func() { writes++ })
		begun := time.Now()
		pass := func() {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
		}
		if pass(); time.Since(begun) != 0 || writes != 1 {
			t.Errorf("the pass took %v, and %d passes of statuses are called for", time.Since(begun), writes)
		}
		ended := make(chan time.Duration)
		go func() {
			_, _ = r.statuses.Reconcile(t.Context(), ctrl.Request{})
			ended <- time.Since(begun)
		}()
		time.Sleep(time.Second)
		if pass(); time.Since(begun) != time.Second {
			t.Errorf("a pass beside it took until %v", time.Since(begun))
		}
		if took := <-ended; took != 2*writeTime {
			t.Errorf("both writes took %v", took)
		}
	})
}

// refusing refuses writes of statuses, and notes when.
type refusing struct {
	client.Client
	err error
	at  *[]time.Duration
	of  time.Time
}

func (c refusing) Status() client.SubResourceWriter { return refusingStatus{c.Client.Status(), c} }

type refusingStatus struct {
	client.SubResourceWriter
	refusing
}

func (s refusingStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	*s.at = append(*s.at, time.Since(s.of))
	return s.err
}

// TestRefusedStatus: a status that cannot be written is tried again after a pause that grows, however often
// proxies are told something meanwhile.
func TestRefusedStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New(t, append(base(), ingressTo("a", "a.example.com", "cheese"))...)
		var at []time.Duration
		c := refusing{api, errors.New("denied"), &at, time.Now()}
		r := New(t.Context(), Options{Server: delta.NewServer(delta.Options{})}, c, api, events.NewFakeRecorder(100), func() {}, func() {})
		for time.Since(c.of) < 20*time.Second {
			_, err := r.Reconcile(t.Context(), ctrl.Request{})
			_, failed := r.statuses.Reconcile(t.Context(), ctrl.Request{})
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("tried after %v, want %v", at, want)
		}
	})
}

// TestPaceOfStatuses: where the addresses of many Ingresses change at once, a hundred are written, and then ten a
// second.
func TestPaceOfStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := base()
		for i := range 150 {
			objects = append(objects, ingressTo(fmt.Sprintf("in-%03d", i), fmt.Sprintf("in-%03d.example.com", i), "cheese"))
		}
		api := fakeapi.New(t, objects...)
		r := New(t.Context(), Options{Server: delta.NewServer(delta.Options{})}, api, api, events.NewFakeRecorder(1000), func() {}, func() {})
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := r.statuses.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun).Round(time.Millisecond); took != 5*time.Second || len(api.Writes()) != 150 {
			t.Errorf("%d writes took %v", len(api.Writes()), took)
		}
	})
}

// TestNotTold: what proxies cannot be told is said once, of the object that it comes from, for as long as it
// lasts.
func TestNotTold(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	paths := in.Spec.Rules[0].HTTP.Paths
	paths[0].Path = "/" + strings.Repeat("a", wire.MaxResource)
	c := newCluster(t, true, in, ingressTo("other", "other.example.com", "cheese"))
	p := c.proxy(t)
	c.pass(t)
	if got := p.hear(t); !strings.Contains(got, "route/Ingress/shop/other/0") || strings.Contains(got, "route/Ingress/shop/cheese/0") {
		t.Errorf("told is %s", got)
	}
	said := c.said()
	c.pass(t, slice("10.1.0.1"))
	c.put(t, slice("10.1.0.2"))
	c.pass(t, slice("10.1.0.2"))
	if said = append(said, c.said()...); len(said) != 1 || !strings.Contains(said[0], "NotTold") || !strings.Contains(said[0], "route/Ingress/shop/cheese/0") {
		t.Errorf("events are %q", said)
	}
	if got, _ := routing.OriginOf("route/Ingress/shop/cheese/0"); got != routing.RefOf(in) {
		t.Errorf("it comes from %s", got)
	}
	in, shorter := c.ingress(t), "/a"
	in.Spec.Rules[0].HTTP.Paths[0].Path = shorter
	c.put(t, in)
	c.pass(t, in)
	p.hear(t)
	if got := p.hear(t); got != "route/Ingress/shop/cheese/0" || len(c.withheld[web].all) != 0 {
		t.Errorf("made shorter, told is %s, and %v is withheld", got, c.withheld)
	}
}

// TestRoomAgain: what did not fit is told when there is room for it, and not when it is gone.
func TestRoomAgain(t *testing.T) {
	c := newCluster(t, true)
	c.complete = true
	large := strings.Repeat("a", 1_000_000)
	backend := func(name string) wire.Resource {
		return wire.Resource{Name: name + "/cheese:80", Backend: &wire.Backend{Port: 80, Cookie: large}}
	}
	var most []wire.Resource
	for i := range 41 {
		most = append(most, backend(fmt.Sprint("s", i)))
	}
	c.commitOne(t.Context(), web, most, nil)
	if _, withheld := c.withheld[web].all["backend/s40/cheese:80"]; !withheld || len(c.withheld[web].all) != 1 {
		t.Fatalf("%d are withheld", len(c.withheld[web].all))
	}
	c.report()
	small := wire.Resource{Name: "shop/small:80", Backend: &wire.Backend{Port: 80}}
	c.commitOne(t.Context(), web, []wire.Resource{small, backend("another")}, nil)
	c.report()
	if said := c.said(); len(c.withheld[web].all) != 2 || len(said) != 2 || !strings.Contains(said[0], "more than") {
		t.Errorf("%d are withheld, events are %q", len(c.withheld[web].all), said)
	}
	gone := func(name string) []routing.ResourceName {
		return []routing.ResourceName{{Kind: wire.KindBackend, Name: name + "/cheese:80"}}
	}
	c.commitOne(t.Context(), web, nil, gone("another"))
	c.commitOne(t.Context(), web, nil, gone("s0"))
	if len(c.withheld[web].all) != 0 {
		t.Errorf("there is room, and %d are withheld", len(c.withheld[web].all))
	}
}

// TestRoomWithoutAnotherChange: what did not fit is told a moment after something became shorter, though nothing changes
// after that.
func TestRoomWithoutAnotherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t.Context(), Options{Server: delta.NewServer(delta.Options{})}, nil, nil, nil, func() {}, func() {})
		r.complete = true
		backend := func(i, length int) wire.Resource {
			return wire.Resource{Name: fmt.Sprintf("s%d/cheese:80", i), Backend: &wire.Backend{Port: 80, Cookie: strings.Repeat("a", length)}}
		}
		var most []wire.Resource
		for i := range 41 {
			most = append(most, backend(i, 1_000_000))
		}
		r.commitOne(t.Context(), web, most, nil)
		if at := r.retryAt(); len(r.withheld[web].all) != 1 || !at.IsZero() {
			t.Fatalf("%d are withheld, and are to be told at %s", len(r.withheld[web].all), at)
		}
		r.commitOne(t.Context(), web, []wire.Resource{backend(0, 1)}, nil)
		if n := len(r.withheld[web].all); n != 1 {
			t.Fatalf("at once %d are withheld", n)
		}
		time.Sleep(time.Until(r.retryAt()))
		r.commit(t.Context(), &observed{now: time.Now()}, nil)
		if at := r.retryAt(); len(r.withheld[web].all) != 0 || !at.IsZero() {
			t.Errorf("%d are withheld still, and are to be told at %s", len(r.withheld[web].all), at)
		}
	})
}

// TestThousandsWithheld: what is withheld is not encoded again with each change of an endpoint, and what is withheld
// stays so meanwhile.
func TestThousandsWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t.Context(), Options{Server: delta.NewServer(delta.Options{})}, nil, nil, nil, func() {}, func() {})
		big := func(name string) wire.Resource {
			return wire.Resource{Name: name + "/cheese:80", Backend: &wire.Backend{Port: 80, Cookie: strings.Repeat("a", 1_000_000)}}
		}
		var most []wire.Resource
		for i := range 50 {
			most = append(most, big(fmt.Sprint("s", i)))
		}
		r.commitOne(t.Context(), web, most, nil)
		if n := len(r.withheld[web].all); n != 10 {
			t.Fatalf("%d are withheld", n)
		}
		small := []wire.Resource{{Name: "shop/small:80", Backend: &wire.Backend{Port: 80}}}
		for _, c := range []struct {
			after   time.Duration
			removed []string
			want    int
		}{{0, nil, 1}, {time.Second - 1, nil, 1}, {time.Second, nil, 11}, {time.Second, []string{"backend/s49/cheese:80"}, 10}} {
			time.Sleep(c.after - time.Since(r.withheld[web].tried))
			if got := len(r.withWithheld(web, small, c.removed)); got != c.want {
				t.Errorf("after %v, with %v removed, %d are committed, want %d", c.after, c.removed, got, c.want)
			}
			r.withhold(web, small, nil)
		}
		if n := len(r.withheld[web].all); n != 9 {
			t.Errorf("%d are withheld still", n)
		}
	})
}
