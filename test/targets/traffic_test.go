package targets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// TestTraffic detaches a node that traffic really flows to. Its target reads unused at
// once, while its load balancer goes on to send connections. When the node is said to be
// detached none can come any more, so that what serves there may end: nothing fails.
func TestTraffic(t *testing.T) {
	const stays, leaves, port = "simulated-1", "simulated-7", 8080
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	f.front(local(9, 1), port)
	f.serve(stays, port)
	end := f.serve(leaves, port)
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromInt32(port), NodeSelector: named(stays, leaves),
		DetachFloorSeconds: new(int32(30)), // that of a network load balancer, ten times as fast
	})
	f.ready(a, 2)
	v := f.visit(fmt.Sprintf("%s:%d", local(9, 1), port))
	f.eventually("connections to both nodes", func(context.Context) error {
		if !f.taking(stays) || !f.taking(leaves) {
			return errors.New("one has none")
		}
		return nil
	})
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, new(""))
	f.eventually("the timestamp", func(context.Context) error {
		if n := f.node(leaves); n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" {
			return fmt.Errorf("%v", n.Annotations)
		}
		return nil
	})
	if f.taking(leaves) {
		t.Fatal("it is said to be detached, and its load balancer may still send connections")
	}
	end()
	before := v.count()
	f.eventually("more connections", func(context.Context) error {
		if v.count() < before+100 {
			return errors.New("too few")
		}
		return nil
	})
	if failed := v.stop(); len(failed) > 0 {
		t.Errorf("%d of %d connections failed, such as: %v", len(failed), v.count(), failed[0])
	}
	f.removedAtOnce(a)
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, nil)
}

// TestLastOfAZone asks for a node whose zone has no other, and whose clients reach no
// other zone: it stays, and says why.
func TestLastOfAZone(t *testing.T) {
	const node = "simulated-8"
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[crossZone] = "false" })
	f.register(instance("simulated-1"), instance(node))
	f.healthy("i-simulated-1:80", "i-simulated-8:80")
	f.annotate(node, v1alpha1.AnnotationNodeDetached, new(""))
	a := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: node}}
	f.eventually("held", func(ctx context.Context) error {
		states, err := f.states(ctx)
		if err == nil && states["i-simulated-8:80"] != "healthy" {
			t.Fatalf("the last target of its zone is taken out: %v", states)
		}
		err = errors.Join(err, api.Get(ctx, client.ObjectKeyFromObject(a), a))
		if err == nil && !strings.Contains(a.Status.Waits, "last healthy target of zone zone-b") {
			err = errors.New(a.Status.Waits)
		}
		return err
	})
	f.annotate(node, v1alpha1.AnnotationNodeDetached, nil)
	f.eventually("let go", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); !apierrors.IsNotFound(err) {
			return errors.Join(fmt.Errorf("%+v", a.Status), err)
		}
		return nil
	})
}

// TestInvalidTarget selects a node whose machine the cloud does not know, which refuses
// the whole call: that node is refused alone. When the TargetGroupAttachment goes, what is
// deregistered is out, at the port that it was registered with.
func TestInvalidTarget(t *testing.T) {
	f := newFixture(t, "instance")
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromInt32(30081), NodeSelector: named("simulated-1", "simulated-3", unknown),
	})
	blocked := ""
	f.eventually("Blocked", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionBlocked)
		if c == nil || !strings.Contains(c.Message, instance(unknown)) {
			return fmt.Errorf("%+v", a.Status)
		}
		blocked = c.Message
		return nil
	})
	if strings.Contains(blocked, "i-simulated-1") || strings.Contains(blocked, "i-simulated-3") {
		t.Fatalf("what is valid is refused beside what is not: %s", blocked)
	}
	f.holds("those that are valid", "i-simulated-1:30081", "i-simulated-3:30081")
	f.must(api.Delete(t.Context(), a))
	f.eventually("a call to deregister", func(ctx context.Context) error {
		calls, err := admin.Calls(ctx, 0)
		for _, c := range calls {
			if c.Action == "DeregisterTargets" && c.Resource == f.arn && c.CarriedOut {
				return nil
			}
		}
		return errors.Join(errors.New("there is none"), err)
	})
	states, err := f.states(t.Context())
	f.must(err)
	for target, state := range states {
		if state != "draining" {
			t.Fatalf("%s was deregistered, and is %s", target, state)
		}
	}
	f.removed(a)
}

// named selects nodes by their names.
func named(nodes ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: metav1.LabelSelectorOpIn, Values: nodes},
	}}
}

// serve answers on the machine of a node, until the test ends or end is called.
func (f *fixture) serve(node string, port int) (end func()) {
	f.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", addressOf(node), port))
	f.must(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, node) })}
	go server.Serve(l)
	end = func() { server.Close() }
	f.Cleanup(end)
	return end
}

// taking reports whether a node got traffic through the group, and may get more.
func (f *fixture) taking(node string) bool {
	f.Helper()
	truth, err := f.admin.Truth(f.Context())
	f.must(err)
	for _, traffic := range truth.Targets {
		if traffic.Group == f.arn && traffic.Target.ID == instance(node) {
			return traffic.Taking
		}
	}
	return false
}

// visitors come 100 times a second, one after the other, each on a connection of its own.
type visitors struct {
	// stop ends them, and returns what failed.
	stop func() []error

	mu     sync.Mutex
	came   int
	failed []error
}

func (f *fixture) visit(address string) *visitors {
	ctx, cancel := context.WithCancel(context.Background())
	v, left := &visitors{}, make(chan struct{})
	v.stop = func() []error {
		cancel()
		<-left
		return v.failed
	}
	go func() {
		defer close(left)
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for ctx.Err() == nil {
			<-every.C
			v.come(ctx, address)
		}
	}()
	f.Cleanup(func() { v.stop() })
	return v
}

// come is one visitor.
func (v *visitors) come(ctx context.Context, address string) {
	transport := &http.Transport{DisableKeepAlives: true}
	visitor := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address, nil)
	if err == nil {
		var response *http.Response
		if response, err = visitor.Do(r); err == nil {
			response.Body.Close()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	v.came++
	if err != nil {
		v.failed = append(v.failed, err)
	}
}

// count is how many came.
func (v *visitors) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.came
}
