package targets

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// asOf is when groups were listed and read, and when Attachments first asked.
var asOf = noon.Add(-time.Second)

var (
	ourselves = v1alpha1.AssumeRole{}
	roleA     = v1alpha1.AssumeRole{ARN: "arn:aws:iam::111111111111:role/a"}
	roleB     = v1alpha1.AssumeRole{ARN: "arn:aws:iam::222222222222:role/b"}
)

func webGroup(kind TargetType) Group {
	return Group{ID: "arn:web", Name: "web", Balancer: Network, Type: kind, Port: 80, InUse: true, CrossZone: true, Tags: map[string]string{"a": "b"}}
}

func at80(ids ...string) map[Target]Health {
	out := map[Target]Health{}
	for _, id := range ids {
		out[Target{id, 80}] = Health{Condition: Healthy}
	}
	return out
}

// fleetOf is a State with the nodes node-a to node-c, and one group that was read a moment
// ago, for what is to be decided now.
func fleetOf(g Group, registered map[Target]Health) State {
	s := State{
		Now: noon, SettleTimes: map[Balancer]time.Duration{Network: time.Minute, Application: time.Minute, Classic: time.Minute}, Bindings: Bindings{Listed: true},
		Accounts: []Account{{ListedAt: asOf, Groups: []KnownGroup{{Group: g, Registered: registered, ReadAt: asOf, Live: true}}}},
		Memory:   Memory{Nodes: map[types.UID]NodeMemory{}, Groups: map[GroupKey]GroupMemory{}},
	}
	for i, id := range []string{"a", "b", "c"} {
		s.Nodes = append(s.Nodes, nodeOf("node-"+id, "i-"+id, fmt.Sprintf("z%d", min(i+1, 2))))
	}
	return s
}

func nodeOf(name, instance, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone, "name": name}}}
	if instance != "" {
		n.Spec.ProviderID = "aws:///" + zone + "/" + instance
	}
	return n
}

// group is the first one of ourselves.
func (s *State) group() *KnownGroup { return &s.Accounts[0].Groups[0] }

// detachment adds an Attachment that asked when everything was read.
func (s *State) detachment(name, instance string, wanted v1alpha1.AttachmentWanted, groups ...v1alpha1.AttachedGroup) *v1alpha1.Attachment {
	a := &v1alpha1.Attachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 3},
		Spec:       v1alpha1.AttachmentSpec{Instance: instance, Wanted: wanted}, Status: v1alpha1.AttachmentStatus{Groups: groups},
	}
	s.NodeAttachments = append(s.NodeAttachments, a)
	s.Memory.Nodes[a.UID] = NodeMemory{3, asOf}
	return a
}

// attachment adds a TargetGroupAttachment.
func (s *State) attachment(name string, spec v1alpha1.TargetGroupAttachmentSpec, groups ...v1alpha1.AttachedGroup) *GroupAttachment {
	o := &v1alpha1.TargetGroupAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Finalizers: []string{v1alpha1.Finalizer}}, Spec: spec}
	o.Status.Groups = groups
	if spec.TargetGroup.ARN == "" && spec.TargetGroup.Tags == nil && spec.TargetGroup.Name == "" {
		o.Spec.TargetGroup.Name = "web"
	}
	s.Attachments = append(s.Attachments, GroupAttachment{Object: o})
	return &s.Attachments[len(s.Attachments)-1]
}

// onNodes selects nodes by name, all where none is given.
func onNodes(names ...string) v1alpha1.TargetGroupAttachmentSpec {
	selector := &metav1.LabelSelector{}
	if len(names) > 0 {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: names}}
	}
	return v1alpha1.TargetGroupAttachmentSpec{TargetType: "instance", Port: intstr.FromInt32(80), NodeSelector: selector}
}

func onPods(kind TargetType) v1alpha1.TargetGroupAttachmentSpec {
	return v1alpha1.TargetGroupAttachmentSpec{TargetType: string(kind), Port: intstr.FromInt32(80), PodSelector: &metav1.LabelSelector{}}
}

// podOf is one whose containers are ready, on the node of its name.
func podOf(name, address string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "node-" + name}}
	p.Spec.Containers = []corev1.Container{{Name: "proxy"}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	if address != "" {
		p.Status.PodIP, p.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	}
	return p
}

func in80(targets ...string) v1alpha1.AttachedGroup {
	return v1alpha1.AttachedGroup{ID: "arn:web", Balancer: "network", Targets: targets}
}

func leaving80(at time.Time, targets ...string) v1alpha1.AttachedGroup {
	out := v1alpha1.AttachedGroup{ID: "arn:web", Balancer: "network"}
	for _, t := range targets {
		l := v1alpha1.LeavingTarget{Target: t}
		if !at.IsZero() {
			l.LeftAt = &metav1.Time{Time: at}
		}
		out.Leaving = append(out.Leaving, l)
	}
	return out
}

// result is a Decision with what is looked for in it.
type result struct {
	Decision
	t *testing.T
}

// plan decides, and holds that neither the order of what is given matters nor that it was
// decided before.
func plan(t *testing.T, s State) result {
	t.Helper()
	d := Plan(s)
	reversed := s
	reversed.Attachments, reversed.NodeAttachments, reversed.Nodes, reversed.Accounts = slices.Clone(s.Attachments), slices.Clone(s.NodeAttachments), slices.Clone(s.Nodes), slices.Clone(s.Accounts)
	slices.Reverse(reversed.Attachments)
	slices.Reverse(reversed.NodeAttachments)
	slices.Reverse(reversed.Nodes)
	slices.Reverse(reversed.Accounts)
	if again := Plan(reversed); !reflect.DeepEqual(d, again) {
		t.Errorf("the order matters: %s", cmp.Diff(d, again))
	}
	return result{d, t}
}

func (r result) node(name string) v1alpha1.AttachmentStatus {
	r.t.Helper()
	for _, n := range r.NodeAttachments {
		if n.Object.Name == name {
			return n.Status
		}
	}
	r.t.Fatalf("there is no Attachment %s", name)
	return v1alpha1.AttachmentStatus{}
}

func (r result) of(name string) AttachmentDecision {
	r.t.Helper()
	for _, a := range r.Attachments {
		if a.Object.Name == name {
			return a
		}
	}
	r.t.Fatalf("there is no TargetGroupAttachment %s", name)
	return AttachmentDecision{}
}

func (r result) blocked(name string) string {
	c := meta.FindStatusCondition(r.of(name).Status.Conditions, v1alpha1.ConditionBlocked)
	if c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

// calls are all of them, such as "out i-a:80".
func (r result) calls() string {
	var out []string
	for _, g := range r.Groups {
		for _, t := range g.Deregister {
			out = append(out, "out "+t.String())
		}
		for _, t := range g.Register {
			out = append(out, "in "+t.String())
		}
	}
	return strings.Join(out, ", ")
}

// apply is the State after all that is decided is written.
func (r result) apply(s State) State {
	s.Memory = r.Memory
	attachments := slices.Clone(s.Attachments)
	for i := range attachments {
		o := attachments[i].Object.DeepCopy()
		o.Status = r.of(o.Name).Status
		attachments[i].Object = o
	}
	s.Attachments = attachments
	var nodes []*v1alpha1.Attachment
	for _, n := range s.NodeAttachments {
		o := n.DeepCopy()
		o.Status = r.node(o.Name)
		nodes = append(nodes, o)
	}
	s.NodeAttachments = nodes
	return s
}

// later is the State after some time, in which the groups of ourselves were read as they
// are now, and calls accepted.
func (s State) later(after time.Duration, registered map[Target]Health, answered ...Target) State {
	s.Now = s.Now.Add(after)
	accounts := slices.Clone(s.Accounts)
	for i := range accounts {
		accounts[i].Groups = slices.Clone(accounts[i].Groups)
		for j := range accounts[i].Groups {
			g := &accounts[i].Groups[j]
			g.Registered, g.ReadAt, g.Answers = registered, s.Now, map[Target]Answer{}
			for _, t := range answered {
				g.Answers[t] = Answer{At: s.Now.Add(-time.Millisecond), Times: 1}
			}
		}
	}
	s.Accounts = accounts
	return s
}

func intstrOf(port int32) intstr.IntOrString { return intstr.FromInt32(port) }
