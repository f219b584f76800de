package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// Attributes of target groups.
const (
	delay          = "deregistration_delay.timeout_seconds"
	crossZone      = "load_balancing.cross_zone.enabled"
	cutOnUnhealthy = "target_health_state.unhealthy.connection_termination.enabled"
)

// fixture is a target group behind a network load balancer that has no sockets, in
// an account of many.
type fixture struct {
	*testing.T
	group, arn string
	// admin and terraform are of the account that the group is in.
	admin     *aws.Client
	terraform *elb.Client
}

func newFixture(t *testing.T, targetType string, changes ...func(*cloud.TargetGroup)) *fixture {
	t.Parallel()
	return newFixtureAlone(t, targetType, changes...)
}

// newFixtureAlone is for a test that runs while no other does: all others wait until it has
// ended.
func newFixtureAlone(t *testing.T, targetType string, changes ...func(*cloud.TargetGroup)) *fixture {
	return newFixtureOf(t, theCloud, targetType, changes...)
}

// newFixtureOf is in some account.
func newFixtureOf(t *testing.T, account *aws.Server, targetType string, changes ...func(*cloud.TargetGroup)) *fixture {
	f := &fixture{T: t, group: strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), admin: aws.NewClient(account.Admin), terraform: elb.New(elb.Options{
		Region: region, BaseEndpoint: sdk.String("http://" + account.API),
		Credentials: credentials.NewStaticCredentialsProvider("AKIATERRAFORM", "terraform-secret", ""),
	})}
	f.group = f.group[:min(len(f.group), 32)]
	g := cloud.TargetGroup{
		Name: f.group, Protocol: "TCP", Port: 80, TargetType: targetType, AssumeHealthy: true, Tags: map[string]string{"team": f.group},
		Attributes: map[string]string{delay: "20", crossZone: "true"},
	}
	for _, change := range changes {
		change(&g)
	}
	f.must(f.admin.PutTargetGroup(t.Context(), g))
	f.front("", 80)
	f.arn = f.arnOf(f.group)
	t.Cleanup(func() {
		f.must(f.admin.DeleteLoadBalancer(context.Background(), f.group))
		f.must(f.admin.DeleteTargetGroup(context.Background(), f.group))
	})
	return f
}

func (f *fixture) arnOf(group string) string {
	f.Helper()
	groups, err := f.admin.TargetGroups(f.Context())
	f.must(err)
	for _, g := range groups {
		if g.Name == group {
			return g.ARN
		}
	}
	f.Fatalf("there is no target group %s", group)
	return ""
}

// front has the load balancer listen at an address, or at none.
func (f *fixture) front(address string, port int) {
	f.Helper()
	f.must(f.admin.PutLoadBalancer(f.Context(), cloud.LoadBalancer{
		Name: f.group, Type: "network", Zones: []cloud.Zone{{Name: zone, Address: address}},
		Listeners: []cloud.Listener{{Protocol: "TCP", Port: port, TargetGroup: f.group}},
	}))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// eventually waits until there is no error.
func (f *fixture) eventually(what string, try func(context.Context) error) {
	f.Helper()
	var last error
	err := wait.PollUntilContextTimeout(f.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		f.Fatalf("%s: %v", what, last)
	}
}

// states are the targets of the group as AWS tells them, without those that drain.
func (f *fixture) states(ctx context.Context) (map[string]string, error) {
	out, err := f.terraform.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &f.arn})
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, t := range out.TargetHealthDescriptions {
		states[fmt.Sprintf("%s:%d", *t.Target.Id, *t.Target.Port)] = string(t.TargetHealth.State)
	}
	return states, nil
}

// holds waits until the group holds just these, drained ones not counted.
func (f *fixture) holds(what string, want ...string) {
	f.Helper()
	slices.Sort(want)
	f.eventually(what, func(ctx context.Context) error {
		states, err := f.states(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(states, func(_, state string) bool { return state == "draining" })
		if got := slices.Sorted(maps.Keys(states)); !slices.Equal(got, want) {
			return fmt.Errorf("the group has %v, want %v", states, want)
		}
		return nil
	})
}

func (f *fixture) register(ids ...string) {
	f.Helper()
	var list []types.TargetDescription
	for _, id := range ids {
		list = append(list, types.TargetDescription{Id: &id})
	}
	_, err := f.terraform.RegisterTargets(f.Context(), &elb.RegisterTargetsInput{TargetGroupArn: &f.arn, Targets: list})
	f.must(err)
}

func (f *fixture) attach(spec v1alpha1.TargetGroupAttachmentSpec) *v1alpha1.TargetGroupAttachment {
	f.Helper()
	spec.TargetGroup = v1alpha1.TargetGroupSelector{Tags: map[string]string{"team": f.group}}
	a := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group}, Spec: spec}
	f.must(api.Create(f.Context(), a))
	return a
}

// ready waits until the condition Ready is True.
func (f *fixture) ready(a *v1alpha1.TargetGroupAttachment, targets int32) {
	f.Helper()
	f.eventually("Ready", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) || a.Status.Healthy != targets || a.Status.Targets != targets {
			return fmt.Errorf("%+v", a.Status)
		}
		return nil
	})
}

// removed deletes it, and waits until it is gone.
func (f *fixture) removed(a client.Object) {
	f.Helper()
	f.must(client.IgnoreNotFound(api.Delete(f.Context(), a)))
	f.eventually("gone", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(a), a)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("it is still there: %v", a.GetFinalizers()), err)
	})
}

// removedAtOnce does the same where nothing is to be waited for, since nobody is served.
func (f *fixture) removedAtOnce(a *v1alpha1.TargetGroupAttachment) {
	f.Helper()
	patch := client.MergeFrom(a.DeepCopy())
	a.Spec.DetachFloorSeconds = new(int32(0))
	f.must(api.Patch(f.Context(), a, patch))
	f.removed(a)
}

func (f *fixture) pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	f.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group + "-" + name, Labels: map[string]string{"app": f.group}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "proxy", Image: "proxy", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
	for _, change := range change {
		change(p)
	}
	f.must(api.Create(f.Context(), p))
	f.eventually("the pod's address", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.PodIP == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return p
}

// TestNodes registers the nodes that are selected, and takes them out when the
// TargetGroupAttachment goes; it leaves alone what somebody else registered. The
// node that is not selected is detached by another test meanwhile.
func TestNodes(t *testing.T) {
	f := newFixture(t, "instance")
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromInt32(30080), NodeSelector: named("simulated-1", "simulated-3"),
	})
	f.holds("the selected nodes", "i-simulated-1:30080", "i-simulated-3:30080")
	f.ready(a, 2)
	f.register("i-simulated-1")
	f.removed(a)
	f.holds("what terraform registered", "i-simulated-1:80")
}

// TestPods registers pods by their addresses and takes them out when they end.
func TestPods(t *testing.T) {
	f := newFixture(t, "ip")
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "ip", Port: intstr.FromString("http"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.group}},
	})
	one, two := f.pod("one", "simulated-1"), f.pod("two", "simulated-2")
	f.holds("both pods", one.Status.PodIP+":8080", two.Status.PodIP+":8080")
	f.ready(a, 2)
	f.must(api.Delete(t.Context(), one))
	f.holds("the pod that is left", two.Status.PodIP+":8080")
	f.removed(a)
	f.holds("nothing")
	f.removed(two)
}

// TestDrainHook tells a pod with a drain hook that it is a target before it is, and
// that it is none when no traffic comes any more.
func TestDrainHook(t *testing.T) {
	f := newFixture(t, "ip")
	const held = "example.com/held"
	f.pod("other", "simulated-2")
	pod := f.pod("hooked", "simulated-1", func(p *corev1.Pod) {
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath, Port: intstr.FromInt32(10080)},
		}}
		// In place of the kubelet, which waits for the hook.
		p.Finalizers = []string{held}
	})
	says := func(want string) {
		f.eventually("the pod is told "+want, func(ctx context.Context) error {
			if err := api.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			if got := pod.Annotations[v1alpha1.AnnotationTargets]; got != want {
				return fmt.Errorf("it is told %q", got)
			}
			return nil
		})
	}
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "ip", Port: intstr.FromString("http"), PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.group}},
	})
	f.ready(a, 2)
	says(v1alpha1.TargetsIn)
	f.must(api.Delete(t.Context(), pod))
	says(v1alpha1.TargetsOut)
	states, err := f.states(t.Context())
	f.must(err)
	if state := states[pod.Status.PodIP+":8080"]; state != "" && state != "draining" {
		t.Errorf("the pod may stop while its target is %s", state)
	}
	before := pod.DeepCopy()
	pod.Finalizers = nil
	f.must(client.IgnoreNotFound(api.Patch(t.Context(), pod, client.MergeFrom(before))))
	f.removed(a)
}

// TestDetachedNode takes a node out of a group that nobody told the controller of,
// and puts it back; the controller is killed in between.
func TestDetachedNode(t *testing.T) {
	f := newFixture(t, "instance")
	f.register("i-simulated-1", "i-simulated-2", "i-simulated-3")
	f.healthy("i-simulated-1:80", "i-simulated-2:80", "i-simulated-3:80")
	theController.memory.Lock()
	unlock := sync.OnceFunc(theController.memory.Unlock)
	defer unlock()
	f.annotate("simulated-2", v1alpha1.AnnotationNodeDetached, new(""))
	f.holds("the other nodes", "i-simulated-1:80", "i-simulated-3:80")
	theController.kill()
	if at := f.node("simulated-2").Annotations[v1alpha1.AnnotationDetachmentTimestamp]; at != "" {
		t.Errorf("it is said to be detached at %s, while its load balancer may still send connections", at)
	}
	f.must(theController.start())
	unlock()
	f.eventually("the timestamp", func(context.Context) error {
		n := f.node("simulated-2")
		if n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] == "" || n.Annotations[v1alpha1.AnnotationNodeDetaching] != "true" ||
			n.Labels[v1alpha1.LabelExclude] != v1alpha1.ExcludedByUs {
			return fmt.Errorf("%v %v", n.Annotations, n.Labels)
		}
		return nil
	})
	f.annotate("simulated-2", v1alpha1.AnnotationNodeDetached, nil)
	f.eventually("the timestamp of its return", func(context.Context) error {
		if n := f.node("simulated-2"); n.Annotations[v1alpha1.AnnotationAttachmentTimestamp] == "" {
			return fmt.Errorf("%v", n.Annotations)
		}
		return nil
	})
	if states, err := f.states(t.Context()); err != nil || states["i-simulated-2:80"] != "healthy" {
		t.Fatalf("it is said to be attached while its target is not healthy: %v %v", states, err)
	}
	f.eventually("no mark", func(ctx context.Context) error {
		n := f.node("simulated-2")
		if n.Annotations[v1alpha1.AnnotationNodeDetaching] != "false" ||
			n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" || len(n.Labels[v1alpha1.LabelExclude]) > 0 {
			return fmt.Errorf("%v %v", n.Annotations, n.Labels)
		}
		return notFound(api.Get(ctx, client.ObjectKey{Name: "simulated-2"}, &v1alpha1.Attachment{}))
	})
}

// healthy waits until these are.
func (f *fixture) healthy(want ...string) {
	f.Helper()
	f.eventually("healthy targets", func(ctx context.Context) error {
		states, err := f.states(ctx)
		for _, t := range want {
			if states[t] != "healthy" {
				return errors.Join(err, fmt.Errorf("%v", states))
			}
		}
		return err
	})
}

func (f *fixture) node(name string) *corev1.Node {
	f.Helper()
	n := &corev1.Node{}
	f.must(api.Get(f.Context(), client.ObjectKey{Name: name}, n))
	return n
}

func (f *fixture) annotate(node, key string, value *string) {
	f.Helper()
	n := f.node(node)
	patch := client.MergeFrom(n.DeepCopy())
	if value == nil {
		delete(n.Annotations, key)
	} else {
		n.Annotations[key] = *value
	}
	f.must(api.Patch(f.Context(), n, patch))
}
