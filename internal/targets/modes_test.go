package targets

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func template(hostNetwork bool, ports ...corev1.ContainerPort) corev1.PodSpec {
	return corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "proxy", Ports: ports}}}
}

func port(container, host int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: "http", ContainerPort: container, HostPort: host}
}

// of is a port of a protocol that is a hostPort too, at an address.
func of(protocol corev1.Protocol, address string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: "http", ContainerPort: number, HostPort: number, Protocol: protocol, HostIP: address}
}

func nodePort(policy corev1.ServiceExternalTrafficPolicy, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: corev1.ServiceSpec{
			Type: kind, ExternalTrafficPolicy: policy,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080}, {Name: "https", Port: 443}},
		},
	}
}

// TestModes has every row of the table of modes, and what else can be meant.
func TestModes(t *testing.T) {
	number, name := intstr.FromInt32(8080), intstr.FromString("http")
	sidecar := template(false)
	always := corev1.ContainerRestartPolicyAlways
	sidecar.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "no", ContainerPort: 1}}}, {RestartPolicy: &always, Ports: []corev1.ContainerPort{port(8080, 0)}}}
	for _, c := range []struct {
		name     string
		kind     TargetType
		template corev1.PodSpec
		port     intstr.IntOrString
		service  *corev1.Service
		want     string
	}{
		{"instance, hostNetwork, hostPort", Instance, template(true, port(8080, 8080)), name, nil, "a node 8080"},
		{"instance, hostNetwork, no hostPort: implied", Instance, template(true, port(8080, 0)), name, nil, "a node 8080"},
		{"instance, hostPort", Instance, template(false, port(8080, 80)), number, nil, "a node 80"},
		{"instance, neither", Instance, template(false, port(8080, 0)), name, nil, "give its container port a hostPort"},
		{"ip, hostNetwork, hostPort", IP, template(true, port(8080, 8080)), name, nil, "a node 8080 little"},
		{"ip, hostNetwork, no hostPort: implied", IP, template(true, port(8080, 0)), name, nil, "a node 8080 little"},
		{"ip, hostPort", IP, template(false, port(8080, 80)), name, nil, "a pod 8080 second pod"},
		{"ip, neither", IP, template(false, port(8080, 0)), name, nil, "a pod 8080"},

		{"hostNetwork, other hostPort", Instance, template(true, port(8080, 80)), number, nil, "write hostPort 8080, or none"},
		{"hostNetwork, nothing declared, by number", Instance, template(true), number, nil, "a node 8080"},
		{"hostNetwork, nothing declared, by number, ip", IP, template(true), number, nil, "a node 8080 little"},
		{"hostNetwork, nothing declared, by name", Instance, template(true), name, nil, "or write its number"},
		{"nothing declared, by number, ip", IP, template(false), number, nil, "a pod 8080"},
		{"nothing declared, by number, instance", Instance, template(false), number, nil, "give its container port a hostPort"},
		{"nothing declared, by name", IP, template(false), name, nil, "or write its number"},
		{"a sidecar declares it", IP, sidecar, name, nil, "a pod 8080"},
		{"an init container does not", IP, sidecar, intstr.FromString("no"), nil, "no container declares"},
		{"no port", IP, template(false), intstr.FromInt32(0), nil, "0 is not a port"},
		{"datagrams, of which the group sends none", Instance, template(false, of("UDP", "", 22)), intstr.FromInt32(22), nil, "give its container port a hostPort"},
		{"datagrams beside connections", Instance, template(false, of("UDP", "", 22), of("TCP", "", 80)), name, nil, "a node 80"},
		{"SCTP", Instance, template(false, of("SCTP", "", 22)), name, nil, "no container declares a port named"},
		{"hostPort of one address", Instance, template(false, of("TCP", "127.0.0.1", 22)), name, nil, "leave the hostIP out"},
		{"hostPort of every address", Instance, template(false, of("TCP", "0.0.0.0", 80)), name, nil, "a node 80"},

		{"NodePort, Local", Instance, template(false), name, nodePort("Local", "NodePort"), "a node 30080"},
		{"NodePort, by number", Instance, template(false), intstr.FromInt32(80), nodePort("Local", "NodePort"), "a node 30080"},
		{"LoadBalancer, Local", Instance, template(false), name, nodePort("Local", "LoadBalancer"), "a node 30080"},
		{"NodePort, Cluster", Instance, template(false), name, nodePort("Cluster", "NodePort"), "set externalTrafficPolicy to Local"},
		{"ClusterIP", Instance, template(false), name, nodePort("Local", "ClusterIP"), "set its type to NodePort"},
		{"NodePort, ip", IP, template(false), name, nodePort("Local", "NodePort"), "needs a group of type instance"},
		{"NodePort, another port", Instance, template(false), number, nodePort("Local", "NodePort"), "has no port 8080"},
		{"NodePort, none yet", Instance, template(false), intstr.FromString("https"), nodePort("Local", "NodePort"), "has no nodePort yet"},
		{"NodePort, none of two", Instance, template(false), intstr.FromInt32(0), nodePort("Local", "NodePort"), "has no port 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ModeOf(c.template, Group{Type: c.kind, IPv6: true}, c.port, c.service)
			got := fmt.Sprint(err)
			if err == nil {
				per := map[bool]string{true: "a node", false: "a pod"}[m.PerNode]
				got = strings.TrimSpace(fmt.Sprintf("%s %d %s", per, m.Port, strings.Join(m.Notes, " ")))
			}
			words := strings.SplitAfterN(c.want, " ", 4)
			head, tail := strings.TrimSpace(strings.Join(words[:min(3, len(words))], "")), words[len(words)-1]
			switch {
			case err != nil && !strings.Contains(got, c.want):
				t.Errorf("got %q, want %q", got, c.want)
			case err == nil && (!strings.HasPrefix(got, head) || len(words) > 3 && !strings.Contains(got, tail) || len(words) == 3 && got != head):
				t.Errorf("got %q, want %q", got, c.want)
			case err == nil && (m.Type != c.kind || !m.IPv6):
				t.Errorf("got %+v", m)
			}
		})
	}
	if m, err := ModeOf(template(false, of("UDP", "", 53)), Group{Type: Instance, Datagrams: true}, name, nil); err != nil || m.Port != 53 {
		t.Errorf("datagrams: %+v %v", m, err)
	}
	one := nodePort("Local", "NodePort")
	one.Spec.Ports = one.Spec.Ports[:1]
	if m, err := ModeOf(template(false), Group{Type: Instance}, intstr.FromInt32(0), one); err != nil || m.Port != 30080 {
		t.Errorf("the only port of a Service: %+v %v", m, err)
	}
}

func TestInstanceID(t *testing.T) {
	for provider, want := range map[string]string{
		"aws:///eu-central-1a/i-0123456789abcdef0": "i-0123456789abcdef0",
		"": "no providerID",
		"aws:///eu-central-1a/0f2c/fargate-ip-10-0-0-1.compute.internal": "Fargate",
		"eks-hybrid:///eu-central-1/cluster/mi-0123":                     "hybrid",
		"kind://docker/kind/kind-worker":                                 "names no instance",
		"gce://project/zone/i-am-elsewhere":                              "names no instance",
		"aws:///eu-central-1a/":                                          "names no instance",
	} {
		id, why := InstanceID(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: provider}})
		if id != want && (why == "" || id != "" || !strings.Contains(why, want)) {
			t.Errorf("%q: got %q, %q, want %q", provider, id, why, want)
		}
	}
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	p.Spec.NodeName = "n"
	p.Status.Phase = corev1.PodRunning
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00:0:0::1"}}
	if change != nil {
		change(p)
	}
	return p
}

func disrupted(reason string, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: status, Reason: reason}}
	}
}

func TestPodWants(t *testing.T) {
	at := metav1.NewTime(noon)
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(60)) }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase; p.DeletionTimestamp = &at }
	}
	for _, c := range []struct {
		name   string
		pod    func(*corev1.Pod)
		mode   Mode
		out    map[string]string
		id     string
		in     bool
		ending bool
		until  time.Time
		skip   string
	}{
		{name: "it runs", id: "10.0.0.1", in: true},
		{name: "it starts", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, id: "10.0.0.1", in: true},
		{name: "IPv6", mode: Mode{IPv6: true}, id: "fd00::1", in: true},
		{name: "only podIP", pod: func(p *corev1.Pod) { p.Status.PodIPs = nil; p.Status.PodIP = "10.0.0.2" }, id: "10.0.0.2", in: true},
		{name: "no address yet", pod: func(p *corev1.Pod) { p.Status.PodIPs = nil }},
		{name: "none of the family", pod: func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[:1] }, mode: Mode{IPv6: true}, skip: "no IPv6 address"},
		{name: "none of the other", pod: func(p *corev1.Pod) { p.Status.PodIPs = p.Status.PodIPs[1:] }, skip: "no IPv4 address"},
		{name: "its node is to be out", out: map[string]string{"n": "cordoned"}, id: "10.0.0.1"},
		{name: "deleted", pod: deleted, id: "10.0.0.1", ending: true},
		{name: "deleted on a node that is to be out", pod: deleted, out: map[string]string{"n": "cordoned"}, id: "10.0.0.1", ending: true},
		{name: "failed", pod: phase(corev1.PodFailed), id: "10.0.0.1", ending: true},
		{name: "ended", pod: phase(corev1.PodSucceeded), id: "10.0.0.1", ending: true},
		{name: "evicted", pod: disrupted("EvictionByEvictionAPI", "True"), id: "10.0.0.1", ending: true},
		{name: "by the kubelet", pod: disrupted("TerminationByKubelet", "True"), id: "10.0.0.1", ending: true},
		{name: "preempted", pod: disrupted("PreemptionByScheduler", "True"), id: "10.0.0.1", ending: true},
		{name: "tainted", pod: disrupted("DeletionByTaintManager", "True"), id: "10.0.0.1", ending: true},
		{name: "collected", pod: disrupted("DeletionByPodGC", "True"), id: "10.0.0.1", ending: true},
		{name: "for another reason", pod: disrupted("Maintenance", "True"), id: "10.0.0.1", in: true},
		{name: "no longer", pod: disrupted("EvictionByEvictionAPI", "False"), id: "10.0.0.1", in: true},
		{name: "deleted, held by a hook", pod: deleted, mode: Mode{Hook: true}, id: "10.0.0.1", ending: true, until: noon.Add(time.Minute)},
		{name: "deleted, held by a hook that leaves it time", pod: deleted, mode: Mode{Hook: true, HookLeaves: time.Second}, id: "10.0.0.1", ending: true, until: noon.Add(59 * time.Second)},
		{name: "failed: no hook runs", pod: phase(corev1.PodFailed), mode: Mode{Hook: true}, id: "10.0.0.1", ending: true},
		{name: "evicted, a hook will hold it", pod: disrupted("EvictionByEvictionAPI", "True"), mode: Mode{Hook: true}, id: "10.0.0.1"},
		{name: "by the kubelet, no hook", pod: disrupted("TerminationByKubelet", "True"), mode: Mode{Hook: true}, id: "10.0.0.1", ending: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.mode
			m.Type, m.Port, m.Zone = IP, 8080, "all"
			p := pod(c.pod)
			wants, skipped := m.PodWants(Fleet{Pods: []*corev1.Pod{p}, Out: c.out, Deleted: map[types.UID]time.Time{p.UID: noon}})
			if c.id == "" {
				if len(wants) > 0 || len(skipped) != min(1, len(c.skip)) || c.skip != "" && !strings.Contains(skipped[0].Why, c.skip) {
					t.Errorf("got %+v, %+v", wants, skipped)
				}
				return
			}
			want := Want{Registration: Registration{Target{c.id, 8080}, "all"}, Owner: "ns/p", In: c.in, Seen: !c.in, Ending: c.ending, HookUntil: c.until}
			if len(wants) != 1 {
				t.Fatalf("got %+v, %+v", wants, skipped)
			}
			if wants[0].Why == "" {
				t.Error("it does not say why")
			}
			if wants[0].Why = ""; wants[0] != want {
				t.Errorf("got  %+v\nwant %+v", wants[0], want)
			}
		})
	}
}

// TestWantsByNode: pods of a node share its target, which leaves with the last.
func TestWantsByNode(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1"}}
	fargate := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///a/x/fargate-1"}}
	onto := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }
	at := metav1.NewTime(noon)
	going := pod(func(p *corev1.Pod) { p.DeletionTimestamp = &at })
	f := Fleet{
		Pods:  []*corev1.Pod{going, pod(nil), pod(onto("f")), pod(onto("?")), pod(onto(""))},
		Nodes: map[string]*corev1.Node{"n": node, "f": fargate},
	}
	m := Mode{Type: Instance, Port: 80, Zone: "all"}
	wants, skipped := m.PodWants(f)
	if len(wants) != 2 || len(skipped) != 2 || wants[0].Registration != (Registration{Target: Target{"i-1", 80}}) {
		t.Fatalf("got %+v, %+v", wants, skipped)
	}
	s := rested()
	s.Group.Type, s.Group.Port, s.Records = Instance, 80, []Record{record(Target{"i-1", 80}, false, time.Time{})}
	s.Registered = map[Target]Health{{"i-1", 80}: healthy("a")}
	s.Wants = wants
	if d := decide(s); len(d.Deregister) > 0 {
		t.Errorf("the node leaves though a pod serves: %+v", d)
	}
	s.Wants = wants[:1]
	if d := decide(s); len(d.Deregister) != 1 {
		t.Errorf("the node stays though its last pod ends: %+v", d)
	}

	f.Out = map[string]string{"n": "cordoned"}
	wants, skipped = m.NodeWants(f)
	if len(wants) != 1 || wants[0].In || !wants[0].Seen || wants[0].Ending || wants[0].Why != "cordoned" || len(skipped) != 1 || skipped[0].Name != "f" {
		t.Errorf("got %+v, %+v", wants, skipped)
	}
	f.Out = nil
	if wants, _ = m.NodeWants(f); len(wants) != 1 || !wants[0].In {
		t.Errorf("got %+v", wants)
	}
}

// TestModeOfAPodIsItsOwn: a template on record tells the port of a pod of the host network,
// which declares none, and nothing else: anybody may have written it who writes in the namespace.
func TestModeOfAPodIsItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		pod, recorded corev1.PodSpec
		group         TargetType
		want          int32
		perNode       bool
	}{
		"of the host network":                {template(true), template(true, port(8080, 0)), IP, 8080, true},
		"of its own, said to be the host's":  {template(false, port(8080, 0)), template(true, port(22, 0)), IP, 8080, false},
		"of the host's, said to be its own":  {template(true, port(8080, 0)), template(false, port(22, 0)), IP, 8080, true},
		"another hostPort":                   {template(false, port(8080, 80)), template(false, port(8080, 22)), Instance, 80, true},
		"another hostPort, and host network": {template(false, port(8080, 80)), template(true, port(22, 0)), Instance, 80, true},
	} {
		a := &attachment{GroupAttachment: setOf(c.group, nil, nil)}
		a.Templates["one"] = c.recorded
		pod := podOf("node-a", "")
		pod.Labels, pod.Spec = map[string]string{v1alpha1.LabelRevision: "one"}, c.pod
		mode, err := a.mode(pod, Group{Type: c.group})
		if err != nil || mode.Port != c.want || mode.PerNode != c.perNode {
			t.Errorf("%s: port %d, per node %t, %v; want %d, %t", name, mode.Port, mode.PerNode, err, c.want, c.perNode)
		}
	}
}
