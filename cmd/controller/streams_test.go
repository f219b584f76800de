package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
)

// proxyPod is the pod of all streams.
func proxyPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ingress", Name: "web-0", UID: "uid"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// endedPod is that pod when it has ended, otherPod another of its name.
func endedPod() *corev1.Pod {
	return changedPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
}
func otherPod() *corev1.Pod { return changedPod(func(p *corev1.Pod) { p.UID = "other" }) }

func changedPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := proxyPod()
	change(pod)
	return pod
}

// reader has one pod, none where it is nil, and fails where it has an error.
type reader struct {
	client.Reader
	pod *corev1.Pod
	err error
}

func (r reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.err != nil {
		return r.err
	}
	if r.pod == nil || key != client.ObjectKeyFromObject(r.pod) {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	r.pod.DeepCopyInto(into.(*corev1.Pod))
	return nil
}

// replica serves streams until stop.
type replica struct {
	*streams
	pods *controllertest.FakeInformer
	stop context.CancelFunc
	done chan error
	at   string
}

var web = types.NamespacedName{Namespace: "ingress", Name: "web"}

func newReplica(t *testing.T) *replica {
	t.Helper()
	informers := &informertest.FakeInformers{}
	pods, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := delta.NewServer(delta.Options{
		Identify: func(context.Context) (delta.Peer, error) {
			return delta.Peer{IngressDaemonSet: web, Pod: "web-0", UID: "uid"}, nil
		},
		Report: func(delta.Report) {},
	})
	server.Commit(web, nil, nil)
	r := &replica{pods: pods, done: make(chan error, 1), at: listener.Addr().String(), streams: &streams{
		server: server, secured: insecure.NewCredentials(), informers: informers, cached: reader{pod: proxyPod()}, live: reader{pod: proxyPod()},
	}}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.done <- r.serve(ctx, listener) }()
	t.Cleanup(stop)
	return r
}

// open opens a stream, which has had its first message.
func (r *replica) open(t *testing.T) *delta.Client {
	t.Helper()
	connection, err := delta.Dial("passthrough:///"+r.at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	c, err := delta.Open(t.Context(), connection)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(wire.Request{Node: "web-0", TypeURL: wire.TypeURL}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(wire.Request{TypeURL: wire.TypeURL, Nonce: first.Nonce}); err != nil {
		t.Fatal(err)
	}
	return c
}

// left awaits that no stream is open.
func (r *replica) left(t *testing.T) {
	t.Helper()
	await.True(t, "the stream ends", func() bool { return len(r.peers()) == 0 })
}

// TestStreamsEndWithTheirPod: when it is deleted, also while nobody watched, and when it has ended.
func TestStreamsEndWithTheirPod(t *testing.T) {
	for name, happens := range map[string]func(*replica){
		"deleted":              func(r *replica) { r.pods.Delete(proxyPod()) },
		"deleted at some time": func(r *replica) { r.handler().OnDelete(toolscache.DeletedFinalStateUnknown{Obj: proxyPod()}) },
		"has ended":            func(r *replica) { r.pods.Update(proxyPod(), endedPod()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			c := r.open(t)
			r.pods.Update(proxyPod(), proxyPod())
			r.pods.Delete(otherPod())
			r.server.Commit(web, []wire.Resource{{Name: "a", Certificate: &wire.Certificate{Key: []byte("a")}}}, nil)
			if _, err := c.Receive(); err != nil {
				t.Fatalf("it ends with another pod, or when its own changes: %v", err)
			}
			happens(r)
			r.left(t)
			if _, err := c.Receive(); err == nil {
				t.Error("the proxy does not hear of it")
			}
		})
	}
}

// TestGone: a pod is gone by both, what is cached and what is there.
func TestGone(t *testing.T) {
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		cached, live reader
		gone         bool
	}{
		"there":             {reader{pod: proxyPod()}, reader{err: away}, false},
		"not yet cached":    {reader{}, reader{pod: proxyPod()}, false},
		"cannot be asked":   {reader{}, reader{err: away}, false},
		"gone":              {reader{}, reader{}, true},
		"another took over": {reader{pod: otherPod()}, reader{pod: otherPod()}, true},
		"has ended":         {reader{pod: endedPod()}, reader{pod: endedPod()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			r.open(t)
			looking := &streams{server: r.server, cached: c.cached, live: c.live}
			if gone := looking.gone(t.Context()); slices.Equal(gone, []types.UID{"uid"}) != c.gone {
				t.Errorf("gone are %v", gone)
			}
		})
	}
}

// TestReplicaEnds: proxies that it served go elsewhere at once.
func TestReplicaEnds(t *testing.T) {
	r := newReplica(t)
	c := r.open(t)
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for streams that have no end")
	}
	if _, err := c.Receive(); err == nil {
		t.Error("the stream goes on")
	}
	r.left(t)
}

// TestReplicaWithoutItsPort: while somebody else has its port the controller goes on, and is not ready. When the port is
// free proxies are told, and when it is known what, it is ready.
func TestReplicaWithoutItsPort(t *testing.T) {
	r := newReplica(t)
	late := &streams{server: r.server, address: r.at, secured: r.secured, informers: r.informers, cached: r.cached, live: r.live}
	if err := late.ready(nil); err == nil || !strings.Contains(err.Error(), "not begun") {
		t.Errorf("before it starts: %v", err)
	}
	var said []string
	logger := funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{})
	ctx, stop := context.WithCancel(ctrl.LoggerInto(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- late.Start(ctx) }()
	await.True(t, "it says why it is not ready", func() bool {
		err := late.ready(nil)
		return err != nil && strings.Contains(err.Error(), "address already in use")
	})
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	await.True(t, "it waits only for what proxies are to be told", func() bool {
		err := late.ready(nil)
		return err != nil && strings.Contains(err.Error(), "not known yet")
	})
	r.open(t)
	r.server.Complete()
	if err := late.ready(nil); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(said) != 1 {
		t.Errorf("it says %q", said)
	}
}

// TestReplicaEndsWithoutItsPort: it does not wait for what it cannot have.
func TestReplicaEndsWithoutItsPort(t *testing.T) {
	r := newReplica(t)
	ctx, stop := context.WithCancel(t.Context())
	late := &streams{server: r.server, address: r.at}
	ended := make(chan error, 1)
	go func() { ended <- late.Start(ctx) }()
	await.True(t, "it waits", func() bool {
		return late.ready(nil) != nil && late.ready(nil).Error() != "serving proxies has not begun"
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
