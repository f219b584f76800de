package targets

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plenty is how many targets a group may hold where that does not matter.
const plenty = 1000

var stories = []story{
	{"pod-becomes-ready", "A pod is registered as soon as it has an address, so that the load balancer checks it while it starts. Its readiness gate opens when traffic comes.",
		func(t *teller) {
			t.podsBehind(webGroup(IP), podOf("a", "10.1.0.1"))
		},
		func(t *teller) {
			pod := gatedPod("b", "10.1.0.2")
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			t.does("kubelet", "gives pod b the address 10.1.0.2; its containers are not ready yet", func() { t.starts("web", pod) }, 10*time.Second)
			t.does("kubelet", "the containers of pod b are ready", func() { pod.Status.Conditions[0].Status = corev1.ConditionTrue }, time.Minute)
		}},

	{"pod-leaves-by-its-settle-time", "A pod without a drain hook is deleted. Its target is taken out at once, and is done with only when the load balancer's settle time has passed, long after the pod has gone.",
		func(t *teller) {
			t.podsBehind(webGroup(IP), podOf("a", "10.1.0.1"), podOf("b", "10.1.0.2"))
		},
		func(t *teller) {
			t.does("user", "deletes pod a", func() { t.deletes("web", "a", 30*time.Second) }, 30*time.Second)
			t.does("kubelet", "pod a has ended", func() { t.ends("web", "a") }, 6*time.Minute)
		}},

	{"drain-hook", "Somebody drains a node. The drain hook holds the pod, which goes on serving, until its target is out and the settle time of an application load balancer has passed.",
		func(t *teller) {
			t.podsBehind(drainingGroup(), hookedPod("a", "10.1.0.1", false), hookedPod("b", "10.1.0.2", false))
		},
		func(t *teller) {
			t.does("admin", "evicts pod a, which has 5 minutes to end", func() { t.deletes("web", "a", 5*time.Minute) }, 2*time.Minute)
			t.does("kubelet", "the drain hook of pod a is over, and it has ended", func() { t.ends("web", "a") }, time.Minute)
		}},

	{"node-goes-and-returns", "A node is to be out of its load balancers. Its targets leave, though its pods serve; when it returns it gets what it had, and is back when that is healthy.",
		func(t *teller) {
			t.state.Detaching = true
			t.adds(ourselves, webGroup(Instance), plenty)
			t.state.attachment("web", onNodes())
		},
		func(t *teller) {
			t.does("detaching", "asks for node-a to be out", func() { t.asks("node-a", "i-a", v1alpha1.WantDetached) }, 6*time.Minute)
			t.does("detaching", "asks for node-a to be back", func() { t.asks("node-a", "i-a", v1alpha1.WantAttached) }, time.Minute)
			t.does("detaching", "deletes the Attachment of node-a", func() { t.forgets("node-a") }, time.Minute)
		}},

	{"foreign-targets", "What others registered is left alone: also the address of a node that is to be out. Its instance alone is borrowed, from a group that no TargetGroupAttachment names, and given back.",
		func(t *teller) {
			t.state.Detaching = true
			t.state.Nodes[0].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.1"}}
			t.podsBehind(webGroup(IP), podOf("b", "10.1.0.2"))
			t.registered(t.groups[0], "10.1.1.1")
			legacy := webGroup(Instance)
			legacy.ID, legacy.Name, legacy.Balancer = "arn:legacy", "legacy", Application
			t.registered(t.adds(ourselves, legacy, plenty), "i-a", "i-b")
		},
		func(t *teller) {
			t.does("terraform", "registers 10.9.0.9 in web", func() { t.registered(t.groups[0], "10.9.0.9") }, 2*time.Minute)
			t.does("detaching", "asks for node-a to be out", func() { t.asks("node-a", "i-a", v1alpha1.WantDetached) }, time.Minute)
			t.does("detaching", "asks for node-a to be back", func() { t.asks("node-a", "i-a", v1alpha1.WantAttached) }, time.Minute)
		}},

	{"named-port", "The port is a name, whose number the next template changes: each pod is a target at the port that it declares itself. One that declares none has no target, and is named.",
		func(t *teller) {
			t.podsBehind(webGroup(IP), declaring(podOf("a", "10.1.0.1"), "http", 8080))
			t.selecting("web").Object.Spec.Port = intstr.FromString("http")
		},
		func(t *teller) {
			t.does("kubelet", "gives pod b the address 10.1.0.2; it declares http as 9090", func() { t.starts("web", declaring(podOf("b", "10.1.0.2"), "http", 9090)) }, time.Minute)
			t.does("user", "deletes pod a, which declares http as 8080", func() { t.deletes("web", "a", 30*time.Second) }, 30*time.Second)
			t.does("kubelet", "pod a has ended", func() { t.ends("web", "a") }, 10*time.Second)
			t.does("kubelet", "gives pod c the address 10.1.0.3; it declares no port http", func() { t.starts("web", declaring(podOf("c", "10.1.0.3"), "web", 8080)) }, time.Minute)
		}},

	{"group-that-refuses", "A group holds two targets and no more. The third is tried again ever more rarely, the others serve on, and Blocked says so until there is room.",
		func(t *teller) {
			t.podsBehind(webGroup(IP), podOf("a", "10.1.0.1"), podOf("b", "10.1.0.2"))
			t.groups[0].quota = 2
		},
		func(t *teller) {
			t.does("kubelet", "gives pod c the address 10.1.0.3", func() { t.starts("web", podOf("c", "10.1.0.3")) }, 45*time.Second)
			t.does("admin", "has the quota of the group raised", func() { t.groups[0].quota = plenty }, 2*time.Minute)
		}},

	{"role-that-may-not-be-assumed", "A TargetGroupAttachment names a role of another account that the operator does not permit: nothing is asked as that, and Blocked says what to change.",
		func(t *teller) {
			t.as(ourselves)
			theirs := t.as(roleA)
			theirs.Refused, theirs.Failure = true, "role "+roleA.ARN+" may not be assumed without an external ID: have whoever operates the controller add that to the file of --assume-roles-file and restart it"
			t.adds(roleA, webGroup(IP), plenty)
		},
		func(t *teller) {
			t.does("user", "creates web, which selects pod a and names the role", func() {
				spec := onPods(IP)
				spec.AssumeRole = &roleA
				web := t.state.attachment("web", spec)
				web.Object.Finalizers, web.Pods = nil, []*corev1.Pod{podOf("a", "10.1.0.1")}
			}, time.Minute)
			t.does("operator", "permits the role, and restarts the controller", func() {
				theirs := t.as(roleA)
				theirs.Refused, theirs.Failure, theirs.ListedAt = false, "", t.now
				t.state.Memory = Memory{}
				for _, a := range t.accounts {
					a.restart()
				}
			}, time.Minute)
		}},

	{"deleted-while-another-wants-the-same", "A TargetGroupAttachment is deleted while another selects one of its pods: the target of that one goes over without a call, the other one leaves, and the object goes when traffic to that has stopped.",
		func(t *teller) {
			t.podsBehind(webGroup(IP), podOf("a", "10.1.0.1"), podOf("b", "10.1.0.2"))
		},
		func(t *teller) {
			t.does("user", "creates heir, which selects pod a too", func() {
				pods := t.selecting("web").Pods
				heir := t.state.attachment("heir", onPods(IP))
				heir.Object.Finalizers, heir.Pods = nil, []*corev1.Pod{pods[0]}
			}, time.Minute)
			t.does("user", "deletes web", func() { t.selecting("web").Object.DeletionTimestamp = &metav1.Time{Time: t.now} }, 6*time.Minute)
		}},
}

// podsBehind has some pods behind a group, all selected by a TargetGroupAttachment named web.
func (t *teller) podsBehind(group Group, pods ...*corev1.Pod) {
	t.adds(ourselves, group, plenty)
	t.state.attachment("web", onPods(group.Type)).Pods = pods
}

// registered has somebody else register targets at port 80.
func (t *teller) registered(g *fakeGroup, ids ...string) {
	for _, id := range ids {
		g.register(Target{id, 80}, them)
	}
	t.settle(g)
}

// drainingGroup is of an application load balancer, which drains what leaves for half a minute.
func drainingGroup() Group {
	g := webGroup(IP)
	g.Balancer, g.Delay = Application, 30*time.Second
	return g
}

// gatedPod waits for the readiness gate of web.
func gatedPod(name, address string) *corev1.Pod {
	pod := podOf(name, address)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: webGate}}
	return pod
}

// declaring is a pod whose container declares a port.
func declaring(pod *corev1.Pod, name string, port int32) *corev1.Pod {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: name, ContainerPort: port}}
	return pod
}
