package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/onepass"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/fakeapi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// groupInMemory is a cloud with one group, whose targets are healthy at once, and gone at
// once when they are deregistered.
type groupInMemory struct {
	// kind is instance where nothing else is said.
	kind    targets.TargetType
	mu      sync.Mutex
	targets map[targets.Target]targets.Health
}

func (c *groupInMemory) Region() string { return "" }

func (c *groupInMemory) Named(context.Context, []targets.GroupName) ([]targets.Group, error) {
	return []targets.Group{group(cmp.Or(c.kind, targets.Instance))}, nil
}

func (c *groupInMemory) Tags(context.Context, []targets.Group) (map[string]map[string]string, error) {
	return nil, nil
}

func (c *groupInMemory) Describe(_ context.Context, g targets.Group) (targets.Group, error) {
	return g, nil
}

func (c *groupInMemory) Groups(context.Context) ([]targets.Group, error) {
	return []targets.Group{group(cmp.Or(c.kind, targets.Instance))}, nil
}

func (c *groupInMemory) List(context.Context, targets.Group, []targets.Target) (map[targets.Target]targets.Health, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.targets), nil
}

func (c *groupInMemory) Register(_ context.Context, _ targets.Group, all []targets.Registration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range all {
		c.targets[r.Target] = targets.Health{Condition: targets.Healthy}
	}
	return nil
}

func (c *groupInMemory) Deregister(_ context.Context, _ targets.Group, all []targets.Target) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range all {
		delete(c.targets, t)
	}
	return nil
}

func (c *groupInMemory) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, has := c.targets[targets.Target{ID: id, Port: 80}]
	return has
}

// loopOf is the controller with one account, and what triggers another pass.
func loopOf(ctx context.Context, cached client.Client, live client.Reader, cloud Cloud) (*Reconciler, <-chan struct{}) {
	triggers := make(chan struct{}, 1)
	trigger := func() {
		select {
		case triggers <- struct{}{}:
		default:
		}
	}
	r := New(ctx, Options{
		SettleTime: targets.DefaultSettleTime, GroupsEvery: time.Minute, Rate: 4, Burst: 20, Leads: func() bool { return true },
		Outcome: func(error) targets.Outcome { return targets.Failed },
		Connect: func(*v1alpha1.AssumeRole, func(context.Context) error) (Cloud, error) { return cloud, nil },
	}, cached, live, events.NewFakeRecorder(1000), trigger)
	r.bindings = &listing[targets.Binding]{trigger: trigger, list: func(context.Context) ([]targets.Binding, error) { return nil, nil }}
	return r, triggers
}

// TestTheWholeLoop registers nodes, takes one out and puts it back, and lets go of what is
// deleted when nothing is left of it: every pass on a call, or when it is due.
func TestTheWholeLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []client.Object
		for _, name := range []string{"a", "b"} {
			objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}, Spec: corev1.NodeSpec{ProviderID: "aws:///z/i-" + name}})
		}
		web := named("web")
		web.Spec = v1alpha1.TargetGroupAttachmentSpec{TargetGroup: v1alpha1.TargetGroupSelector{Name: "web"}, TargetType: "instance", Port: intstr.FromInt32(80), NodeSelector: &metav1.LabelSelector{}}
		api := fakeapi.New(t, append(objects, web)...)
		cloud := &groupInMemory{targets: map[targets.Target]targets.Health{}}
		ctx, stop := context.WithCancel(t.Context())
		r, triggers := loopOf(ctx, api, api, cloud)
		// until reconciles for a while, until something is so.
		until := func(what string, within time.Duration, is func() bool) {
			t.Helper()
			for end := time.Now().Add(within); time.Now().Before(end); {
				result, err := r.Reconcile(t.Context(), onepass.Everything)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if is() {
					return
				}
				select {
				case <-triggers:
				case <-time.After(min(result.RequeueAfter, time.Second)):
				}
			}
			t.Fatalf("not within %s: %s", within, what)
		}
		node := func() *v1alpha1.Attachment {
			a := &v1alpha1.Attachment{}
			if err := api.Get(t.Context(), client.ObjectKey{Name: "node-a"}, a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		until("both nodes are registered", 10*time.Second, func() bool { return cloud.has("i-a") && cloud.has("i-b") })
		out := &v1alpha1.Attachment{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "1", Generation: 1}, Spec: v1alpha1.AttachmentSpec{Instance: "i-a", Wanted: v1alpha1.WantDetached}}
		if err := api.Create(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		until("one is out", 30*time.Second, func() bool { return !cloud.has("i-a") })
		left := time.Now()
		until("its traffic has stopped", 6*time.Minute, func() bool { return node().Status.Done })
		if took := time.Since(left); took < 299*time.Second {
			t.Errorf("said to be out after %s", took)
		}
		back := node()
		back.Spec.Wanted, back.Generation = v1alpha1.WantAttached, 2
		if err := api.Update(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		until("it is back", time.Minute, func() bool {
			a := node()
			return cloud.has("i-a") && a.Status.Done && a.Status.ObservedGeneration == a.Generation
		})
		if err := api.Delete(t.Context(), node()); err != nil {
			t.Fatal(err)
		}
		if err := api.Delete(t.Context(), stored(t, api, named("web"))[0]); err != nil {
			t.Fatal(err)
		}
		until("it is let go", 6*time.Minute, func() bool {
			err := api.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "web"}, &v1alpha1.TargetGroupAttachment{})
			return apierrors.IsNotFound(err)
		})
		if cloud.has("i-a") || cloud.has("i-b") {
			t.Error("something is left")
		}
		stop()
		synctest.Wait()
	})
}

// inBubble counts the goroutines of a test that synctest runs. The runtime and what other tests
// have left have some as well, which come and go.
func inBubble() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "synctest bubble")
}

// TestRolesComeAndGo: of roles that somebody used and nobody does any more nothing is left, be
// they permitted or not.
func TestRolesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fakeapi.New(t)
		ctx, stop := context.WithCancel(t.Context())
		r, _ := loopOf(ctx, api, api, &groupInMemory{targets: map[targets.Target]targets.Health{}})
		pass := func() {
			t.Helper()
			for range 5 {
				time.Sleep(2 * time.Second)
				if _, err := r.Reconcile(t.Context(), onepass.Everything); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		pass()
		accounts, goroutines := len(r.accounts), inBubble()
		for round := range 20 {
			var made []*v1alpha1.TargetGroupAttachment
			r.Roles = nil
			for i := range 10 {
				role := v1alpha1.AssumeRole{ARN: fmt.Sprintf("arn:aws:iam::111111111111:role/%d-%d", round, i)}
				if i < 5 {
					r.Roles = append(r.Roles, role)
				}
				a := named(fmt.Sprintf("web-%d", i))
				a.Spec = v1alpha1.TargetGroupAttachmentSpec{TargetGroup: v1alpha1.TargetGroupSelector{Name: "other"}, TargetType: "instance", Port: intstr.FromInt32(80), NodeSelector: &metav1.LabelSelector{}, AssumeRole: &role}
				if err := api.Create(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				made = append(made, a)
			}
			pass()
			if n := len(r.accounts); n != accounts+10 {
				t.Fatalf("%d accounts in use, want %d", n, accounts+10)
			}
			for _, a := range made {
				if err := api.Delete(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			pass()
		}
		if n := len(r.accounts); n != accounts {
			t.Errorf("%d accounts are left, %d were there before", n, accounts)
		}
		if n := inBubble(); n != goroutines || n == 0 {
			t.Errorf("%d goroutines are left, %d were there before", n, goroutines)
		}
		stop()
		synctest.Wait()
	})
}
