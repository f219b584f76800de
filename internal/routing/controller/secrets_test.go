package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/holdings"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// busy is an API server that takes a while for each answer, and has each Secret that it is asked for.
type busy struct {
	client.WithWatch
	takes time.Duration

	mu sync.Mutex
	// away says whether no watch can be opened, cut whether those that are end at once.
	away, cut bool
	// tried is how many were tried to be opened, opening and reading how many at once now, and at most.
	tried, opening, reading, mostOpening, mostReading int
}

func (b *busy) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	b.mu.Lock()
	b.tried++
	b.opening++
	b.mostOpening = max(b.mostOpening, b.opening)
	b.mu.Unlock()
	time.Sleep(b.takes)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	w := watch.NewRaceFreeFake()
	if b.cut {
		w.Stop()
	}
	if b.away {
		return nil, errors.New("away")
	}
	return w, nil
}

func (b *busy) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	b.mu.Lock()
	b.reading++
	b.mostReading = max(b.mostReading, b.reading)
	b.mu.Unlock()
	time.Sleep(b.takes)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading--
	into.SetNamespace(key.Namespace)
	into.SetName(key.Name)
	into.SetResourceVersion("1")
	into.(*corev1.Secret).Data = map[string][]byte{corev1.TLSCertKey: []byte("certificate")}
	return nil
}

// become says how it is from now on, and gives how many watches were tried to be opened so far.
func (b *busy) become(away, cut bool) (tried int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.cut = away, cut
	return b.tried
}

func manyNames(n int) (out []types.NamespacedName) {
	for i := range n {
		out = append(out, types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("s", i)})
	}
	return out
}

// TestThousandsOfSecrets: at a start all are waited for, as long as the API server goes on answering, and it is not
// asked for more at once than it can bear.
func TestThousandsOfSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := &busy{takes: 500 * time.Millisecond}
		r := New(t.Context(), Options{}, nil, live, nil, func() {}, func() {})
		names := manyNames(3000)
		r.secrets.want(names)
		time.Sleep(time.Minute)
		o := &observed{unreadable: map[types.NamespacedName]string{}}
		for _, n := range names {
			r.secrets.observe(refOfSecret(n), o)
		}
		if len(o.there) != len(names) || len(o.unreadable) != 0 {
			t.Errorf("%d are read, and %d given up", len(o.there), len(o.unreadable))
		}
		for _, n := range names {
			if f := r.secrets.all[n]; f.unreadable != "" {
				t.Fatalf("%s was given up: %s", n, f.unreadable)
			}
		}
		if live.mostOpening != opensAtOnce || live.mostReading > readsAtOnce {
			t.Errorf("%d watches are opened at once, and %d read", live.mostOpening, live.mostReading)
		}
	})
}

// TestLineThatStands: a Secret is given up, too, whose turn never comes, because the API server answers nobody.
func TestLineThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int64
		r := New(t.Context(), Options{}, nil, &moody{mode: "hangs"}, nil, func() { given.Add(1) }, func() {})
		r.secrets.want(manyNames(200))
		time.Sleep(2 * patience)
		if synctest.Wait(); given.Load() != 200 {
			t.Errorf("%d are given up", given.Load())
		}
	})
}

// TestNoPaceOfSecrets: a bound on requests in a second would make proxies wait for as long as there are Secrets.
func TestNoPaceOfSecrets(t *testing.T) {
	before := &rest.Config{QPS: 200}
	if got := unpaced(before); got.QPS >= 0 || got.RateLimiter != nil || before.QPS != 200 {
		t.Errorf("it is %v requests a second, and was %v", got.QPS, before.QPS)
	}
}

// TestWatchesFail: while no watch can be opened, or each ends at once, the pause grows to a minute. That is said
// once, and when it is over, whatever their number.
func TestWatchesFail(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var said []string
			logger := funcr.New(func(_, line string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, line)
			}, funcr.Options{})
			const many = 500
			live := &busy{takes: time.Millisecond}
			running, stop := context.WithCancel(log.IntoContext(t.Context(), logger))
			defer stop()
			r := New(running, Options{}, nil, live, nil, func() {}, func() {})
			live.become(!cut, cut)
			r.secrets.want(manyNames(many))
			time.Sleep(10 * time.Minute)
			before := live.become(!cut, cut)
			time.Sleep(10 * time.Minute)
			tried := live.become(false, false) - before
			live.mu.Lock()
			most := live.mostOpening
			live.mu.Unlock()
			if tried < 9*many || tried > 21*many || most > opensAtOnce {
				t.Errorf("cut %t: in ten minutes %d are opened of %d, %d at once", cut, tried, many, most)
			}
			time.Sleep(2 * time.Minute)
			want := 2
			if cut {
				want = 0
			}
			mu.Lock()
			defer mu.Unlock()
			if len(said) != want || want > 0 && (!strings.Contains(said[0], "cannot be watched") || !strings.Contains(said[1], "again")) {
				t.Errorf("cut %t: said is %q", cut, said)
			}
		})
	}
}

// TestKeysAreKeptOnce: when the Compiler was told of a Secret, its watch keeps no more of it than who it is.
func TestKeysAreKeptOnce(t *testing.T) {
	in := ingressTo("cheese", "cheese.example.com", "cheese")
	in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"cheese.example.com"}, SecretName: "named"}}
	c := newCluster(t, true, in, slice("10.1.0.1"), certificate(t, "named", "cheese.example.com"))
	p := c.proxy(t)
	c.pass(t)
	c.awaken(t)
	if got := p.hear(t); !strings.Contains(got, "certificate/shop/named") {
		t.Errorf("told is %s", got)
	}
	kept := c.secrets.object(routing.Ref{Kind: kindSecret, Namespace: "shop", Name: "named"}).(*corev1.Secret)
	if len(kept.Data) != 0 || kept.UID != "named-uid" || kept.ResourceVersion == "" {
		t.Errorf("kept is %v", kept)
	}
	// A change may be noted only after a pass has told of it.
	c.changes.add(routing.RefOf(kept))
	c.pass(t)
	if w := c.compiler.Warnings(); len(w) != 0 {
		t.Errorf("told once more, warnings are %v", w)
	}
	// A pass that failed reads it again, though the watch has nothing new.
	c.put(t, certificate(t, "named", "cheese.example.com"))
	whole := c.client
	select {
	case <-c.wake:
	case <-time.After(longest):
		t.Fatal("no pass is called for")
	}
	c.client = unreadable{whole}
	c.changes.add(routing.RefOf(in))
	if _, err := c.Reconcile(t.Context(), everything); err == nil {
		t.Error("the pass ends without an error")
	}
	c.client = whole
	c.pass(t)
	if got := p.hear(t); got != "certificate/shop/named" {
		t.Errorf("told is %s", got)
	}
}

// TestSecretGoneBeforeRestart: the last good certificate of a Secret that was deleted, or made malformed, serves on at
// a proxy that has it when another controller begins, which does not know it. New proxies have none.
func TestSecretGoneBeforeRestart(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		in, secret := ingressTo("cheese", "cheese.example.com", "cheese"), certificate(t, "named", "cheese.example.com")
		in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"cheese.example.com"}, SecretName: "named"}}
		c := newCluster(t, true, in, slice("10.1.0.1"), secret)
		c.pass(t)
		c.awaken(t)
		old := &holder{holdings.New(), &table.Table{}}
		old.take(t, c.proxy(t))
		if deleted {
			if err := c.API.WithWatch.Delete(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		} else {
			secret.Data[corev1.TLSPrivateKeyKey], secret.ResourceVersion = []byte("no key"), ""
			c.put(t, secret)
		}
		next := replicaOf(t, c.API, true)
		next.pass(t)
		next.awaken(t)
		again := next.proxyWith(t, old.Ask("web-0"))
		old.take(t, again)
		if got := old.presents(); got != "cheese.example.com" {
			t.Errorf("deleted %t: presented is %q", deleted, got)
		}
		if got := next.proxy(t).hear(t); !strings.Contains(got, "route/") || strings.Contains(got, "certificate/") {
			t.Errorf("deleted %t: a new proxy is told %s", deleted, got)
		}
		if said := next.said(); len(said) != 1 || !strings.Contains(said[0], "from before") {
			t.Errorf("deleted %t: events are %q", deleted, said)
		}
		// When no listener names it any more it goes.
		in.Spec.TLS, in.ResourceVersion = nil, ""
		c.put(t, in)
		next.pass(t, in)
		old.take(t, again)
		if got := old.presents(); got != "" {
			t.Errorf("deleted %t: when nobody names it, presented is %q", deleted, got)
		}
	}
}

// TestSecretsOfOneNamespace: of a namespace no more Secrets are watched than there may be, those first that were named
// before, and of others it is said at once why not. When one is not named any more, there is room for another.
func TestSecretsOfOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var changed []string
		var mu sync.Mutex
		s := newSecrets(ctx, &moody{mode: "absent"}, func(ref routing.Ref) {
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, ref.String())
		})
		s.most = 2
		names := func(all ...string) (out []types.NamespacedName) {
			for _, name := range all {
				out = append(out, types.NamespacedName{Namespace: "shop", Name: name})
			}
			return append(out, types.NamespacedName{Namespace: "other", Name: "a"})
		}
		unreadable := func() string {
			o := &observed{unreadable: map[types.NamespacedName]string{}}
			for n := range s.all {
				s.observe(refOfSecret(n), o)
			}
			out := fmt.Sprint(o.unreadable)
			return out
		}
		s.want(names("b", "c"))
		synctest.Wait()
		changed = nil
		s.want(names("a", "b", "c"))
		synctest.Wait()
		if got := unreadable(); len(changed) != 1 || got != "map[shop/a:Ingresses and Gateways name more than 2 Secrets of its namespace]" {
			t.Errorf("told of is %v, unreadable are %s", changed, got)
		}
		s.want(names("a", "c"))
		synctest.Wait()
		if got := unreadable(); len(changed) != 2 || got != "map[]" {
			t.Errorf("with room again told of is %v, unreadable are %s", changed, got)
		}
		cancel()
	})
}
