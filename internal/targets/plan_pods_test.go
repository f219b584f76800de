package targets

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// hookedPod is one with a drain hook.
func hookedPod(name, address string, ends bool) *corev1.Pod {
	p := podOf(name, address)
	p.Spec.Containers = []corev1.Container{{
		Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: v1alpha1.DrainPath}}},
	}}
	if ends {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return p
}

// hooks are what is written on pods, by name.
func (r result) hooks() map[string]bool {
	out := map[string]bool{}
	for _, h := range r.Hooks {
		out[h.Pod.Name] = h.In
	}
	return out
}

// gates are what is written on pods, by name.
func (r result) gates() map[string]string {
	out := map[string]string{}
	for _, g := range r.Gates {
		out[g.Pod.Name] = string(g.Condition.Status) + " " + g.Condition.Reason
	}
	return out
}

const webGate = "target-health.ingressdaemonsets.mumoshu.github.io/web"

// gated selects the addresses of pods that wait for it, each named after what becomes of
// its target.
func (s *State) gated(addresses map[string]string) *GroupAttachment {
	a := s.attachment("web", onPods(IP))
	for name, address := range addresses {
		p := podOf(name, address)
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "other"}, {ConditionType: webGate}}
		a.Pods = append(a.Pods, p)
	}
	slices.SortFunc(a.Pods, func(a, b *corev1.Pod) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return a
}

func (a *GroupAttachment) pod(name string) *corev1.Pod {
	return a.Pods[slices.IndexFunc(a.Pods, func(p *corev1.Pod) bool { return p.Name == name })]
}

func TestGates(t *testing.T) {
	addresses := map[string]string{"well": "10.0.0.1", "sick": "10.0.0.2", "new": "10.0.0.3", "bare": "", "v6": "fd00::1", "ends": "10.0.0.4", "free": "10.0.0.5"}
	everywhere := func(what string) map[string]string {
		return map[string]string{"well": what, "sick": what, "new": what, "bare": what, "v6": what}
	}
	for name, c := range map[string]struct {
		change func(*State, *GroupAttachment)
		want   map[string]string
	}{
		"each as its target is": {func(*State, *GroupAttachment) {}, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "False Registering", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
		"the group was never read": {func(s *State, _ *GroupAttachment) { s.group().Registered, s.group().ReadAt = nil, time.Time{} },
			map[string]string{"well": "False TargetUnknown", "sick": "False TargetUnknown", "new": "False TargetUnknown", "bare": "False TargetUnknown", "v6": "False TargetRefused"}},
		"the record cannot be read": {func(_ *State, a *GroupAttachment) {
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("so it is")}
		}, everywhere("False TargetUnknown")},
		"another group":               {func(_ *State, a *GroupAttachment) { a.Object.Spec.TargetGroup.Name = "other" }, everywhere("False TargetUnknown")},
		"somebody else has the group": {func(s *State, _ *GroupAttachment) { s.Bindings.All = []Binding{{Name: "ns/web", ARN: "arn:web"}} }, everywhere("True NotChecked")},
		"it is deleted":               {func(_ *State, a *GroupAttachment) { a.Object.DeletionTimestamp = &metav1.Time{Time: noon} }, everywhere("True AttachmentDeleted")},
		"a node is out": {func(s *State, _ *GroupAttachment) { s.detachment("node-new", "i-new", v1alpha1.WantDetached) }, map[string]string{
			"well": "True TargetsHealthy", "sick": "False TargetUnhealthy", "new": "True NodeDetached", "bare": "False TargetUnknown", "v6": "False TargetRefused",
		}},
	} {
		registered := at80("10.0.0.1", "10.0.0.4")
		registered[Target{"10.0.0.2", 80}] = Health{Condition: Unhealthy, Reason: "Target.FailedHealthChecks"}
		s := fleetOf(webGroup(IP), registered)
		a := s.gated(addresses)
		a.pod("ends").DeletionTimestamp = &metav1.Time{Time: noon}
		a.pod("free").Spec.ReadinessGates = nil
		c.change(&s, &s.Attachments[0])
		d := plan(t, s)
		if diff := cmp.Diff(c.want, d.gates()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// A deleted TargetGroupAttachment stays while a pod waits for it.
		if d.of("web").Release {
			t.Errorf("%s: it is let go", name)
		}
	}
	s := fleetOf(webGroup(Instance), at80("i-a"))
	a := s.gated(map[string]string{"a": "10.0.0.1"})
	a.Object.Spec.TargetType, a.Pods[0].Spec.HostNetwork = "instance", true
	if diff := cmp.Diff(map[string]string{"a": "True NotChecked"}, plan(t, s).gates()); diff != "" {
		t.Error(diff)
	}
}

// TestGatesStay writes nothing anew, and does not close a gate because the controller
// has just started, or because one pod cannot be understood.
func TestGatesStay(t *testing.T) {
	for name, change := range map[string]func(*State, *GroupAttachment){
		"as it was":               func(*State, *GroupAttachment) {},
		"the group is not read":   func(s *State, _ *GroupAttachment) { s.group().Registered, s.group().ReadAt = nil, time.Time{} },
		"a pod without its port":  func(_ *State, a *GroupAttachment) { a.Pods[1].Spec.Containers = nil },
		"it is to be put back":    func(s *State, _ *GroupAttachment) { s.group().Registered = at80("10.0.0.9") },
		"its address is not seen": func(_ *State, a *GroupAttachment) { a.Pods[0].Status.PodIP, a.Pods[0].Status.PodIPs = "", nil },
	} {
		s := fleetOf(webGroup(IP), at80("10.0.0.1", "10.0.0.2"))
		a := s.gated(map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"})
		a.Object.Spec.Port = intstr.FromString("http")
		for _, p := range a.Pods {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}}}}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: webGate, Status: corev1.ConditionTrue, Reason: GateTargetsHealthy, Message: "the pod's target takes traffic in every target group"})
		}
		change(&s, a)
		if got := plan(t, s).gates(); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

const (
	stopsEarly = "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
		"the container that serves is stopped after 0s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60"
	killedEarly = ", and the pod is killed after 30s: set terminationGracePeriodSeconds to 90"
	alwaysOpen  = "the readiness gate " + webGate + " is always open, because the targets of target group web are instances, whose health says nothing of a single pod: remove it from the template"
)

// lasting is a pod that outlasts its load balancer.
func lasting(p *corev1.PodSpec) {
	p.TerminationGracePeriodSeconds = new(int64(90))
	p.Containers = []corev1.Container{{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 60}}}}}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*GroupAttachment)
		reason  string
		message string
	}{
		"pods that end at once": {func(*GroupAttachment) {}, "GraceTooShort", stopsEarly + killedEarly},
		"one of them":           {func(a *GroupAttachment) { lasting(&a.Pods[0].Spec) }, "GraceTooShort", stopsEarly + killedEarly},
		"none of them":          {func(a *GroupAttachment) { lasting(&a.Pods[0].Spec); lasting(&a.Pods[1].Spec) }, "AsExpected", ""},
		"one of them goes": {func(a *GroupAttachment) {
			lasting(&a.Pods[0].Spec)
			a.Pods[1].DeletionTimestamp = &metav1.Time{Time: noon}
		}, "AsExpected", ""},
		"killed": {func(a *GroupAttachment) {
			lasting(&a.Pods[0].Spec)
			lasting(&a.Pods[1].Spec)
			a.Pods[1].Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds = 1
			a.Pods[1].Spec.TerminationGracePeriodSeconds = nil
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the container that serves is stopped after 1s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: 60" + killedEarly},
		"no pod at present": {func(a *GroupAttachment) { a.Pods = nil }, "Before", "before"},
		"no group":          {func(a *GroupAttachment) { a.Object.Spec.TargetGroup.Name = "other" }, "Before", "before"},
		"a set with a drain hook": {func(a *GroupAttachment) {
			a.Set = &v1alpha1.IngressDaemonSet{}
			a.Set.Spec.DrainHook = &v1alpha1.DrainHook{}
		}, "GraceTooShort", "a load balancer may send new connections to a pod for 1m0s after its deletion began, and lets open ones go on for another 30s, but " +
			"the pod is killed after 30s, of which its drain hook leaves it the last 10s: set terminationGracePeriodSeconds to 100"},
		"a set's template, not its pods": {func(a *GroupAttachment) {
			a.Set = &v1alpha1.IngressDaemonSet{}
			lasting(&a.Set.Spec.Template.Spec)
		}, "AsExpected", ""},
	} {
		checkWarning(t, name, IP, map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}, c.change, c.reason, c.message)
	}
	host := func(a *GroupAttachment) { a.Pods[0].Spec.HostNetwork = true }
	one := map[string]string{"a": "10.0.0.1"}
	checkWarning(t, "instances", Instance, one, host, "GraceTooShort", alwaysOpen+"; "+stopsEarly+killedEarly)
	checkWarning(t, "instances that last", Instance, one, func(a *GroupAttachment) { host(a); lasting(&a.Pods[0].Spec) }, "GateNotChecked", alwaysOpen)
	checkWarning(t, "no gate", Instance, one, func(a *GroupAttachment) { host(a); lasting(&a.Pods[0].Spec); a.Pods[0].Spec.ReadinessGates = nil }, "AsExpected", "")
}

func checkWarning(t *testing.T, name string, kind TargetType, pods map[string]string, change func(*GroupAttachment), reason, message string) {
	t.Helper()
	g := webGroup(kind)
	g.Delay = 30 * time.Second
	s := fleetOf(g, nil)
	a := s.gated(pods)
	a.Object.Spec.TargetType = string(kind)
	a.Object.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWarning, Status: metav1.ConditionTrue, Reason: "Before", Message: "before"}}
	change(a)
	d := plan(t, s)
	got := meta.FindStatusCondition(d.of("web").Status.Conditions, v1alpha1.ConditionWarning)
	if got.Reason != reason || got.Message != message || (got.Status == metav1.ConditionTrue) != (message != "") {
		t.Errorf("%s: %+v", name, got)
	}
}

// TestNodesThatAreResetAreWarnedOf asks for another order of a rollout where turning
// unhealthy ends what is open, and only there.
func TestNodesThatAreResetAreWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.IngressDaemonSetSpec, *Group)
		warns  bool
	}{
		"checks fail first": {func(*v1alpha1.IngressDaemonSetSpec, *Group) {}, true},
		"checks fail last": {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) {
			s.UpdateStrategy.RollingUpdate.FailHealthChecks = v1alpha1.FailAfterDetachment
		}, false},
		"nothing is reset":        {func(_ *v1alpha1.IngressDaemonSetSpec, g *Group) { g.EndsConnectionsOfUnhealthy = false }, false},
		"nobody answers checks":   {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) { s.HealthCheckNodePorts = nil }, false},
		"nodes are not taken out": {func(s *v1alpha1.IngressDaemonSetSpec, _ *Group) { s.UpdateStrategy.RollingUpdate = nil }, false},
	} {
		set := &v1alpha1.IngressDaemonSet{}
		lasting(&set.Spec.Template.Spec)
		set.Spec.Template.Spec.HostNetwork, set.Spec.HealthCheckNodePorts = true, []int32{10080}
		set.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{MaxUnavailableNodes: new(intstr.FromInt32(1))}
		g := webGroup(Instance)
		g.EndsConnectionsOfUnhealthy = true
		c.change(&set.Spec, &g)
		s := fleetOf(g, nil)
		spec := onPods(Instance)
		spec.PodSelector, spec.IngressDaemonSet = nil, &v1alpha1.LocalReference{Name: "nginx"}
		s.attachment("web", spec).Set = set
		got := meta.FindStatusCondition(plan(t, s).of("web").Status.Conditions, v1alpha1.ConditionWarning)
		if warned := got.Reason == v1alpha1.ReasonConnectionsReset; warned != c.warns {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAGateThatOneGroupOpensIsNotWarnedOf: it says something.
func TestAGateThatOneGroupOpensIsNotWarnedOf(t *testing.T) {
	for _, checked := range []bool{true, false} {
		s := fleetOf(webGroup(IP), nil)
		known := s.Accounts[0].Groups[0]
		s.Accounts[0].Groups = nil
		for _, id := range []string{"arn:one", "arn:two"} {
			known.Group.ID, known.Group.ChecksTarget = id, checked && id == "arn:two"
			s.Accounts[0].Groups = append(s.Accounts[0].Groups, known)
		}
		a := s.gated(map[string]string{"a": "10.0.0.1"})
		a.Pods[0].Spec.HostNetwork = true
		lasting(&a.Pods[0].Spec)
		got := meta.FindStatusCondition(plan(t, s).of("web").Status.Conditions, v1alpha1.ConditionWarning)
		if warned := got.Reason == v1alpha1.ReasonGateNotChecked; warned == checked {
			t.Errorf("one group checks the pods: %t, %+v", checked, got)
		}
	}
}

// TestToldIsWhereConnectionsTell has health checkers asked of nodes from which a target
// leaves, and believes them of the port and where connections tell.
func TestToldIsWhereConnectionsTell(t *testing.T) {
	quiet := Quiet{Came: noon, From: noon, To: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		change func(*Group)
		port   int32
		quiet  bool
		asks   bool
	}{
		"its node, its port": {func(*Group) {}, 80, true, true},
		"another port":       {func(*Group) {}, 443, false, true},
		"datagrams":          {func(g *Group) { g.Datagrams = true }, 80, false, false},
	} {
		g := webGroup(Instance)
		c.change(&g)
		s := fleetOf(g, at80("i-b"))
		s.attachment("web", onNodes("node-b"), leaving80(noon.Add(-10*time.Second), "i-a:80"))
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"i-a", 80}: {LeftAt: noon.Add(-10 * time.Second), Left: noon.Add(-10 * time.Second)}}}
		s.Quiet = map[string]map[int32]Quiet{"node-a": {c.port: quiet}}
		d := plan(t, s)
		got := d.of("web").Status.Groups
		if (got[0].Leaving[0].QuietAt != nil) != c.quiet || slices.Contains(d.Ask, "node-a") != c.asks {
			t.Errorf("%s: %+v, asks %v", name, got, d.Ask)
		}
	}
}

// TestToldIsOfTheNodesNetwork takes the connections to a node's port for none to a pod there that
// has the same port, and a network of its own.
func TestToldIsOfTheNodesNetwork(t *testing.T) {
	for _, shares := range []bool{true, false} {
		s := fleetOf(webGroup(IP), at80("10.0.0.2"))
		left := noon.Add(-10 * time.Second)
		a := s.attachment("web", onPods(IP), leaving80(left, "10.0.0.1:80"))
		pod := podOf("a", "10.0.0.1")
		pod.Spec.HostNetwork, pod.DeletionTimestamp = shares, &metav1.Time{Time: noon}
		a.Pods = []*corev1.Pod{pod}
		s.Memory.Groups[GroupKey{ID: "arn:web"}] = GroupMemory{Sightings: map[Target]Sighting{{"10.0.0.1", 80}: {LeftAt: left, Left: left}}}
		s.Quiet = map[string]map[int32]Quiet{"node-a": {80: {Came: noon, From: noon, To: noon.Add(time.Minute)}}}
		d := plan(t, s)
		if got := d.of("web").Status.Groups[0].Leaving[0].QuietAt != nil; got != shares || slices.Contains(d.Ask, "node-a") != shares {
			t.Errorf("host network %t: quiet %t, asks %v", shares, got, d.Ask)
		}
	}
}

// TestAnAddressThatAnotherPodGot is taken out though it is healthy and the last of its group: what
// answers there is not what was registered. What a pod of its own namespace is at stays for a while,
// which may have been selected before.
func TestAnAddressThatAnotherPodGot(t *testing.T) {
	at := func(namespace string) *corev1.Pod {
		p := podOf("other", "10.0.0.1")
		p.Namespace = namespace
		return p
	}
	over := at("ns")
	over.Status.Phase = corev1.PodFailed
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		kind TargetType
		out  bool
	}{
		"a pod of another namespace":     {at("other"), IP, true},
		"nobody":                         {nil, IP, true},
		"a pod that has ended":           {over, IP, true},
		"a pod that is not selected now": {at("ns"), IP, false},
		"an instance":                    {nil, Instance, false},
	} {
		id := map[TargetType]string{IP: "10.0.0.1", Instance: "i-z"}[c.kind]
		s := fleetOf(webGroup(c.kind), at80(id))
		s.attachment("web", onPods(c.kind), in80(id+":80"))
		if c.pod != nil {
			s.Bystanders = append(s.Bystanders, c.pod)
		}
		if calls := plan(t, s).calls(); (calls != "") != c.out {
			t.Errorf("%s has the address: %q", name, calls)
		}
	}
}

// TestPortsOfAClassicLoadBalancer: a pod is behind one only where a listener forwards to its own port
// on the node. Otherwise who selects pods at a port of his own would take over what others registered,
// since an instance is in it once.
func TestPortsOfAClassicLoadBalancer(t *testing.T) {
	for nodePort, calls := range map[int32]string{30080: "in i-c:30080", 30443: "in i-c:30080", 31999: ""} {
		g := webGroup(Instance)
		g.ID, g.Name, g.Balancer, g.Port, g.Ports = "clb", "clb", Classic, 30080, []int32{30080, 30443}
		s := fleetOf(g, map[Target]Health{{"i-a", 30080}: {Condition: Healthy}})
		spec := onPods(Instance)
		spec.TargetGroup.Tags = map[string]string{"a": "b"}
		spec.Port, spec.Service = intstr.FromInt32(80), &v1alpha1.LocalReference{Name: "mine"}
		a := s.attachment("web", spec)
		a.Pods = []*corev1.Pod{podOf("a", "10.0.0.1"), podOf("c", "10.0.0.3")}
		a.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine"}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort}},
		}}
		d := plan(t, s)
		if d.calls() != calls || (len(d.of("web").Status.Groups) > 0) != (calls != "") {
			t.Errorf("node port %d: %q, on record %+v", nodePort, d.calls(), d.of("web").Status.Groups)
		}
		if blocked := d.blocked("web"); calls == "" && !strings.Contains(blocked, "no listener of classic load balancer clb forwards to port 31999") {
			t.Errorf("it says %q", blocked)
		}
	}
}

// TestAListenerThatIsGone: an instance that was registered for a pod leaves like any other when no
// listener forwards to the pod's port any more: not the last one, and only what is on record.
func TestAListenerThatIsGone(t *testing.T) {
	g := webGroup(Instance)
	g.ID, g.Name, g.Balancer, g.Port, g.Ports = "clb", "clb", Classic, 30443, []int32{30443}
	s := fleetOf(g, map[Target]Health{{"i-a", 30443}: {Condition: Healthy}, {"i-b", 30443}: {Condition: Healthy}, {"i-z", 30443}: {Condition: Healthy}})
	spec := onPods(Instance)
	spec.TargetGroup.Tags = map[string]string{"a": "b"}
	a := s.attachment("web", spec, v1alpha1.AttachedGroup{ID: "clb", Balancer: "classic", Targets: []string{"i-a:30443", "i-b:30443"}})
	for _, name := range []string{"a", "b"} {
		pod := podOf(name, "10.0.0.1")
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		a.Pods = append(a.Pods, pod)
	}
	if d := plan(t, s); d.calls() != "out i-a:30443, out i-b:30443" {
		t.Errorf("beside another: %q", d.calls())
	}
	delete(s.group().Registered, Target{"i-z", 30443})
	if d := plan(t, s); strings.Count(d.calls(), "out ") != 1 {
		t.Errorf("where nobody else is: %q", d.calls())
	}
	a.Pods[0].Status.Phase = corev1.PodFailed
	if blocked := plan(t, s).blocked("web"); strings.Contains(blocked, "ns/a") || !strings.Contains(blocked, "ns/b") {
		t.Errorf("it names %q", blocked)
	}
}

// TestAPodThatHasNotStarted takes over nothing that others registered, which cannot be its own, and
// is registered beforehand otherwise.
func TestAPodThatHasNotStarted(t *testing.T) {
	for name, c := range map[string]struct {
		phase    corev1.PodPhase
		recorded bool
		others   map[Target]Health
		takes    bool
	}{
		"pending, and others registered it": {corev1.PodPending, false, at80("i-a", "i-b"), false},
		"running":                           {corev1.PodRunning, false, at80("i-a", "i-b"), true},
		"pending, and it is on record":      {corev1.PodPending, true, at80("i-a", "i-b"), true},
		"pending, and nobody registered it": {corev1.PodPending, false, at80("i-b"), true},
	} {
		s := fleetOf(webGroup(Instance), c.others)
		a := s.attachment("web", onPods(Instance))
		if c.recorded {
			a.Object.Status.Groups = []v1alpha1.AttachedGroup{in80("i-a:80")}
		}
		pod := podOf("a", "")
		pod.Status = corev1.PodStatus{Phase: c.phase}
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		a.Pods = []*corev1.Pod{pod}
		d := plan(t, s)
		if takes := len(d.of("web").Status.Groups) > 0; takes != c.takes {
			t.Errorf("%s: on record %+v", name, d.of("web").Status.Groups)
		}
	}
}
