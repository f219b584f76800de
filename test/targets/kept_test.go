package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// What the program keeps to while visitors come, whom none fails.

// networkSettleTime is that of a network load balancer, which is ten times as fast here.
const networkSettleTime = 30

// visited is a group of nodes that visitors come to.
type visited struct {
	*fixture
	*visitors
	ends map[string]func()
}

// visited has nodes serve behind a load balancer at the address of a number.
func (f *fixture) visited(number, port int, nodes ...string) *visited {
	f.Helper()
	v := &visited{fixture: f, ends: map[string]func(){}}
	f.front(local(9, number), port)
	for _, node := range nodes {
		v.ends[node] = f.serve(node, port)
	}
	return v
}

// begin has visitors come when each node of the load balancer's has had one: what is healthy is not known to
// all of it at once.
func (v *visited) begin(number, port int) {
	v.Helper()
	address := fmt.Sprintf("%s:%d", local(9, number), port)
	first := &visitors{}
	v.eventually("connections to all nodes", func(ctx context.Context) error {
		first.come(ctx, address)
		for node := range v.ends {
			if !v.taking(node) {
				return errors.Join(append(first.failed, fmt.Errorf("%s has none", node))...)
			}
		}
		return nil
	})
	v.visitors = v.visit(address)
	v.more()
}

// stopped is that no more come to a node, which then serves nothing any more.
func (v *visited) stopped(node string) {
	v.Helper()
	if v.taking(node) {
		v.Fatalf("%s is said to be out, and its load balancer may still send connections", node)
	}
	v.ends[node]()
	v.more()
}

// more waits until more have come.
func (v *visited) more() {
	v.Helper()
	before := v.count()
	v.eventually("more connections", func(context.Context) error {
		if v.count() < before+100 {
			return errors.New("too few")
		}
		return nil
	})
}

// none is that no visitor failed.
func (v *visited) none() {
	v.Helper()
	failed := v.visitors.stop()
	v.Logf("%d connections, %d failed", v.count(), len(failed))
	if len(failed) > 0 {
		v.Errorf("%d of %d connections failed, such as: %v", len(failed), v.count(), failed[0])
	}
}

func onNodes(port int, nodes ...string) v1alpha1.TargetGroupAttachmentSpec {
	return v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromInt(port), NodeSelector: named(nodes...), DetachFloorSeconds: new(int32(networkSettleTime)),
	}
}

// edit changes the spec of a TargetGroupAttachment.
func (f *fixture) edit(a *v1alpha1.TargetGroupAttachment, change func(*v1alpha1.TargetGroupAttachmentSpec)) {
	f.Helper()
	f.must(api.Get(f.Context(), client.ObjectKeyFromObject(a), a))
	patch := client.MergeFrom(a.DeepCopy())
	change(&a.Spec)
	f.must(api.Patch(f.Context(), a, patch))
}

// TestNodeWaitsForEveryRole asks for a node that a target group of another account has, which cannot be
// read: it is not said to be out before that is read, and its target has stopped.
func TestNodeWaitsForEveryRole(t *testing.T) {
	const stays, leaves, number, port = "simulated-1", "simulated-13", 2, 8081
	t.Parallel()
	f := newFixtureOf(t, theAccounts.far, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	v := f.visited(number, port, stays, leaves)
	spec := onNodes(port, stays, leaves)
	spec.AssumeRole = &v1alpha1.AssumeRole{ARN: farRole}
	a := f.attach(spec)
	f.ready(a, 2)
	v.begin(number, port)
	theAccounts.closed.Store(true)
	t.Cleanup(func() { theAccounts.closed.Store(false) })
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, new(""))
	f.eventually("the wait", func(ctx context.Context) error {
		o := &v1alpha1.Attachment{}
		err := api.Get(ctx, client.ObjectKey{Name: leaves}, o)
		if !strings.Contains(o.Status.Waits, farRole) {
			return errors.Join(fmt.Errorf("it waits for %q", o.Status.Waits), err)
		}
		return err
	})
	v.more()
	if at := f.node(leaves).Annotations[v1alpha1.AnnotationDetachmentTimestamp]; at != "" {
		t.Fatalf("it is said to be out at %s, while nobody can read a group that has it", at)
	}
	theAccounts.closed.Store(false)
	f.detached(leaves)
	v.stopped(leaves)
	v.none()
	f.removedAtOnce(a)
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, nil)
}

// TestDeselectedNode asks for a node in the moment in which nobody wants its target any more: it is out
// when that has stopped.
func TestDeselectedNode(t *testing.T) {
	const stays, leaves, number, port = "simulated-1", "simulated-14", 3, 8082
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	v := f.visited(number, port, stays, leaves)
	a := f.attach(onNodes(port, stays, leaves))
	f.ready(a, 2)
	v.begin(number, port)
	f.edit(a, func(s *v1alpha1.TargetGroupAttachmentSpec) { s.NodeSelector = named(stays) })
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, new(""))
	f.detached(leaves)
	v.stopped(leaves)
	v.none()
	f.removedAtOnce(a)
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, nil)
}

// TestAnotherTakesOver has a TargetGroupAttachment go while another that sorts before it wants the same: no
// target moves, the other has them on record from then on and not before, and what that one has then leaves
// only by its settle time.
func TestAnotherTakesOver(t *testing.T) {
	const one, two, number, port = "simulated-1", "simulated-3", 4, 8083
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	v := f.visited(number, port, one, two)
	old := f.attach(onNodes(port, one, two))
	f.ready(old, 2)
	v.begin(number, port)
	moves := f.moves()
	first := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-" + f.group}, Spec: *old.Spec.DeepCopy()}
	f.must(api.Create(t.Context(), first))
	f.ready(first, 2)
	if groups := first.Status.Groups; len(groups) > 0 {
		t.Errorf("it has on record what another has that stays: %+v", groups)
	}
	f.removed(old)
	f.must(api.Get(t.Context(), client.ObjectKeyFromObject(first), first))
	if groups := first.Status.Groups; len(groups) != 1 || len(groups[0].Targets) != 2 {
		t.Errorf("it does not have on record what it took over: %+v", groups)
	}
	v.more()
	if n := f.moves() - moves; n > 0 {
		t.Errorf("%d calls moved targets that somebody wants all the time", n)
	}
	f.edit(first, func(s *v1alpha1.TargetGroupAttachmentSpec) { s.NodeSelector = named(one) })
	f.eventually("it leaves", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(first), first)
		if first.Status.Leaving != 1 {
			return errors.Join(err, fmt.Errorf("%+v", first.Status))
		}
		return err
	})
	f.eventually("it has left", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(first), first)
		if first.Status.Leaving > 0 {
			return errors.Join(err, fmt.Errorf("%+v", first.Status))
		}
		return err
	})
	v.stopped(two)
	v.none()
	f.removedAtOnce(first)
}

// TestTargetsOfAnEditedSet changes the number of a named port in a template whose pods stay, mistypes the
// name of the set, and deletes it without its pods: what lives stays a target.
func TestTargetsOfAnEditedSet(t *testing.T) {
	const one, two, number, port = "simulated-1", "simulated-3", 5, 8084
	f := newFixture(t, "instance")
	v := f.visited(number, port, one, two)
	set := &v1alpha1.IngressDaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.group}}
	set.Spec.PodsPerNode = new(int32(1))
	set.Spec.Template.Labels = map[string]string{"app": f.group}
	set.Spec.Template.Spec = corev1.PodSpec{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{one, two}},
			}}},
		}}},
		Containers: []corev1.Container{{Name: "proxy", Image: "proxy", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80, HostPort: port}}}},
	}
	f.must(api.Create(t.Context(), set))
	a := f.attach(v1alpha1.TargetGroupAttachmentSpec{
		TargetType: "instance", Port: intstr.FromString("http"), IngressDaemonSet: &v1alpha1.LocalReference{Name: set.Name}, DetachFloorSeconds: new(int32(networkSettleTime)),
	})
	f.ready(a, 2)
	v.begin(number, port)
	moves := f.moves()
	stays := func(after string) {
		t.Helper()
		v.more()
		v.more()
		if n := f.moves() - moves; n > 0 {
			t.Errorf("%d calls moved targets of pods that serve on, after %s", n, after)
		}
	}

	f.must(api.Get(t.Context(), client.ObjectKeyFromObject(set), set))
	patch := client.MergeFrom(set.DeepCopy())
	set.Spec.Paused = true
	set.Spec.Template.Spec.Containers[0].Ports[0].HostPort = port + 1000
	f.must(api.Patch(t.Context(), set, patch))
	f.eventually("the revision of the template", func(ctx context.Context) error {
		err := api.Get(ctx, client.ObjectKeyFromObject(set), set)
		if set.Status.ObservedGeneration != set.Generation {
			return errors.Join(err, errors.New("it is not seen"))
		}
		return err
	})
	stays("the port of the template changed")

	f.edit(a, func(s *v1alpha1.TargetGroupAttachmentSpec) { s.IngressDaemonSet.Name = "mistyped" })
	f.blocked(a, "there is no IngressDaemonSet mistyped")
	stays("the name of the set was mistyped")
	f.edit(a, func(s *v1alpha1.TargetGroupAttachmentSpec) { s.IngressDaemonSet.Name = set.Name })

	f.must(api.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	f.blocked(a, "there is no IngressDaemonSet "+set.Name)
	stays("the set was deleted without its pods")
	v.none()
	f.removedAtOnce(a)
	out, err := theCluster.Kubectl(t.Context(), "delete", "deployment", "-n", "default", "-l", v1alpha1.LabelName+"="+set.Name).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestGroupsThatRefuse has a node leave one group while a hundred others refuse whatever is registered
// with them: it is deregistered, and out.
func TestGroupsThatRefuse(t *testing.T) {
	const stays, leaves, number, port, groups = "simulated-1", "simulated-15", 6, 8085, 100
	f := newFixture(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	for i := range groups {
		name := fmt.Sprintf("%s%d", failing, i)
		f.must(admin.PutTargetGroup(t.Context(), cloud.TargetGroup{Name: name, Protocol: "TCP", Port: 80, TargetType: "instance", AssumeHealthy: true, Tags: map[string]string{"team": failing}}))
		t.Cleanup(func() { f.must(admin.DeleteTargetGroup(context.Background(), name)) })
	}
	v := f.visited(number, port, stays, leaves)
	a := f.attach(onNodes(port, stays, leaves))
	f.ready(a, 2)
	v.begin(number, port)
	spec := onNodes(port, stays, leaves)
	spec.TargetGroup.Tags = map[string]string{"team": failing}
	refused := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: failing + "all"}, Spec: spec}
	f.must(api.Create(t.Context(), refused))
	f.eventually("each was refused", func(context.Context) error {
		if n := theAccounts.refused.Load(); n < groups {
			return fmt.Errorf("%d calls were", n)
		}
		return nil
	})
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, new(""))
	f.detached(leaves)
	v.stopped(leaves)
	before := theAccounts.refused.Load()
	f.eventually("more are refused", func(context.Context) error {
		if theAccounts.refused.Load() == before {
			return errors.New("none is")
		}
		return nil
	})
	v.none()
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, nil)
	f.removedAtOnce(refused)
	f.removedAtOnce(a)
}

// TestFrozenLeader freezes a leader that takes a node out of six groups, one call a second, while a call is
// decided upon that it has not made. Another leads, and puts the node back; when the first thaws it has
// tokens for four calls at once, and goes on for seconds before it gives its lease up: it makes none that it
// had decided upon. The age of decisions and the lease hold these back, and one of both is enough here; what
// is held back by each alone is in TestFrozenCalls of the controller. No other test runs meanwhile: theirs
// need a controller all the time.
func TestFrozenLeader(t *testing.T) {
	const stays, leaves, number, port, groups = "simulated-1", "simulated-16", 7, 8086, 5
	theController.kill()
	t.Cleanup(func() {
		if err := theController.start(); err != nil {
			t.Error(err)
		}
	})
	f := newFixtureAlone(t, "instance", func(g *cloud.TargetGroup) { g.Attributes[delay] = "0" })
	all := []*fixture{f}
	for i := range groups {
		g := *f
		g.group = fmt.Sprintf("%s-%d", f.group, i)
		f.must(admin.PutTargetGroup(t.Context(), cloud.TargetGroup{
			Name: g.group, Protocol: "TCP", Port: 80, TargetType: "instance", AssumeHealthy: true, Tags: map[string]string{"team": f.group}, Attributes: map[string]string{delay: "0"},
		}))
		g.front("", 80)
		g.arn = g.arnOf(g.group)
		t.Cleanup(func() {
			f.must(admin.DeleteLoadBalancer(context.Background(), g.group))
			f.must(admin.DeleteTargetGroup(context.Background(), g.group))
		})
		all = append(all, &g)
	}
	v := f.visited(number, port, stays, leaves)
	second := f.leader("second")
	a := f.attach(onNodes(port, stays, leaves))
	f.ready(a, int32(2*len(all)))
	f.kill(second)
	v.begin(number, port)

	first := f.leader("controller", "--cloud-rate=1", "--cloud-burst=4")
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, new(""))
	decided := ""
	f.eventually("a call that is decided upon and not made", func(ctx context.Context) (err error) {
		if _, err = f.undone(ctx, a); err != nil {
			return err
		}
		// It may have made the call meanwhile.
		f.must(first.cmd.Process.Signal(syscall.SIGSTOP))
		if decided, err = f.undone(ctx, a); err != nil {
			f.must(first.cmd.Process.Signal(syscall.SIGCONT))
		}
		return err
	})
	f.annotate(leaves, v1alpha1.AnnotationNodeDetached, nil)
	second = f.leader("second")
	f.attached(leaves)
	f.ready(a, int32(2*len(all)))
	made, err := f.deregistrations(t.Context(), "controller")
	f.must(err)
	if made[decided] > 0 {
		t.Fatal("the call was under way when it was frozen, and shows nothing")
	}

	f.must(first.cmd.Process.Signal(syscall.SIGCONT))
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Fatal("it goes on without its lease")
	}
	v.more()
	if after, err := f.deregistrations(t.Context(), "controller"); err != nil || !maps.Equal(after, made) {
		t.Errorf("it made calls to deregister by what it had decided before it was frozen: %v, before that %v: %v", after, made, err)
	}
	v.none()
	f.removedAtOnce(a)
	f.kill(second)
}

// leader is the program as one of several, of which one leads.
type leader struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// leader starts one as a user of the cloud.
func (f *fixture) leader(user string, flags ...string) *leader {
	f.Helper()
	p := &program{path: theController.path, kubeconfig: theController.kubeconfig}
	f.must(p.startAs(user, append(flags, "--leader-elect", "--leader-election-namespace="+namespace)...))
	l := &leader{p.cmd, make(chan struct{})}
	go func() {
		_ = l.cmd.Wait() // One that lost its lease ends with an error.
		close(l.ended)
	}()
	f.Cleanup(func() {
		f.kill(l)
		if f.Failed() {
			f.Logf("leader %s says:\n%s", user, p.log.String())
		}
	})
	return l
}

func (f *fixture) kill(l *leader) {
	_ = l.cmd.Process.Kill()
	<-l.ended
}

// undone is a group of which it is on record that a target leaves, and from which the controller has not
// taken any.
func (f *fixture) undone(ctx context.Context, a *v1alpha1.TargetGroupAttachment) (string, error) {
	made, err := f.deregistrations(ctx, "controller")
	err = errors.Join(err, api.Get(ctx, client.ObjectKeyFromObject(a), a))
	if err != nil {
		return "", err
	}
	for _, g := range a.Status.Groups {
		if len(g.Leaving) > 0 && made[g.ID] == 0 {
			return g.ID, nil
		}
	}
	return "", errors.New("there is none")
}

// deregistrations are how often a user took out targets of the test's groups.
func (f *fixture) deregistrations(ctx context.Context, user string) (map[string]int, error) {
	calls, err := admin.Calls(ctx, 0)
	made := map[string]int{}
	for _, c := range calls {
		if c.Action == "DeregisterTargets" && c.CarriedOut && strings.HasSuffix(c.Principal, "/"+user) && strings.Contains(c.Resource, "/"+f.group) {
			made[c.Resource]++
		}
	}
	return made, err
}
