package gatewayapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// server is an API server that serves some kinds, or does not answer.
type server struct {
	mu     sync.Mutex
	serves []string
	err    error
}

func (s *server) set(err error, kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves, s.err = kinds, err
}

func (s *server) served(context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for _, kind := range s.serves {
		out[kind] = true
	}
	return out, s.err
}

// informers are fakes that are synced when the test says so.
type informers struct {
	informertest.FakeInformers
	mu      sync.Mutex
	synced  bool
	handler toolscache.ResourceEventHandler
}

func (i *informers) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := i.FakeInformers.GetInformer(ctx, o, opts...)
	return &late{informer, i}, err
}

type late struct {
	cache.Informer
	of *informers
}

func (l *late) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	l.of.handler = h
	r, err := l.Informer.AddEventHandler(h)
	return registered{r, l.of}, err
}

type registered struct {
	toolscache.ResourceEventHandlerRegistration
	of *informers
}

func (r registered) HasSynced() bool {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	return r.of.synced
}

func (i *informers) sync() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.synced = true
}

// told is what a listener was told.
type told struct {
	mu  sync.Mutex
	all []string
}

func (l *told) hear(kind string, name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == "" {
		l.all = append(l.all, "look")
	} else {
		l.all = append(l.all, name.Name)
	}
}

func (l *told) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(l.all, " ")
	l.all = nil
	return out
}

// TestComingsAndGoings: kinds that are installed later are watched within ten seconds, each is known to be
// complete when it is synced, and what is removed is not watched any more.
func TestComingsAndGoings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := gatewayv1.Install(scheme); err != nil {
			t.Fatal(err)
		}
		s, i, l := &server{}, &informers{FakeInformers: informertest.FakeInformers{Scheme: scheme}}, &told{}
		s.set(errors.New("away"))
		k := New(nil, i, s.served)
		k.Listeners = append(k.Listeners, l.hear)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Start(ctx) }()
		later := func() {
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		later()
		if k.Complete() || l.take() != "" {
			t.Error("without an answer it is known which kinds there are")
		}
		s.set(nil)
		later()
		if !k.Complete() || l.take() != "look" {
			t.Error("it is not known that there are none")
		}
		s.set(nil, "Gateway", "TCPRoute")
		later()
		first, synced := k.Watched("Gateway")
		if first == 0 || synced || k.Complete() {
			t.Errorf("a kind that is not synced: watch %d, synced %t", first, synced)
		}
		if watch, _ := k.Watched("HTTPRoute"); watch != 0 {
			t.Error("a kind is watched that is not there")
		}
		i.sync()
		later()
		if _, synced := k.Watched("Gateway"); !synced || !k.Complete() || l.take() != "look" {
			t.Error("a kind is not known to be complete")
		}
		at := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		i.handler.OnAdd(at, false)
		i.handler.OnUpdate(at, at)
		i.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: at})
		if got := l.take(); got != "one one one" {
			t.Errorf("told is %q", got)
		}
		s.set(errors.New("away"))
		later()
		if watch, _ := k.Watched("Gateway"); watch != first {
			t.Error("without an answer a kind is taken for gone")
		}
		// It is not there for a moment, as of an API server that has just begun.
		s.set(nil)
		later()
		s.set(nil, "Gateway")
		later()
		if watch, _ := k.Watched("Gateway"); watch != first || l.take() != "" {
			t.Error("what is away for a moment is taken for gone")
		}
		s.set(nil)
		later()
		later()
		if watch, _ := k.Watched("Gateway"); watch != 0 || l.take() != "look" {
			t.Error("what is gone is watched")
		}
		s.set(nil, "Gateway")
		later()
		if watch, _ := k.Watched("Gateway"); watch <= first {
			t.Errorf("after watch %d comes %d", first, watch)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestServed: a group that is not there is no error, and others are.
func TestServed(t *testing.T) {
	asked := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	if kinds, err := servedBy(asked); err != nil || len(kinds) != 0 {
		t.Errorf("without the group: %v, %v", kinds, err)
	}
	asked.Resources = []*metav1.APIResourceList{{
		GroupVersion: schema.GroupVersion{Group: gatewayv1.GroupName, Version: "v1"}.String(),
		APIResources: []metav1.APIResource{{Kind: "Gateway"}, {Kind: "Gateway", Name: "gateways/status"}, {Kind: "HTTPRoute"}},
	}}
	kinds, err := servedBy(asked)
	if err != nil || !slices.Equal(sorted(kinds), []string{"Gateway", "HTTPRoute"}) {
		t.Errorf("%v, %v", kinds, err)
	}
	asked.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	if _, err := servedBy(asked); err == nil {
		t.Error("an API server that is away serves nothing")
	}
}

func sorted(kinds map[string]bool) (out []string) {
	for kind := range kinds {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}
