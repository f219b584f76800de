package targets

import (
	"net/netip"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func newPass(s State) *pass {
	p := &pass{
		State: s, accounts: map[v1alpha1.AssumeRole]*Account{}, nodes: map[string]*corev1.Node{},
		on: map[string][]string{}, pods: map[string]bool{}, lives: map[podAddress]bool{}, zones: map[string]string{}, lost: map[string]string{}, leaves: map[string]string{},
		held: map[GroupKey][]held{}, unreadable: map[GroupKey]string{}, recordedAs: map[v1alpha1.AssumeRole]bool{}, recordedRole: map[GroupKey]v1alpha1.AssumeRole{},
		recordedIn: map[podAddress][]onRecord{}, strays: map[string][]string{}, selectedBy: map[types.UID][]*attachment{}, byKey: map[GroupKey]*group{}, groupsOnRecord: map[GroupKey][]groupOnRecord{}, unfound: map[GroupKey]string{},
		out: Decision{Memory: Memory{Groups: map[GroupKey]GroupMemory{}, Nodes: map[types.UID]NodeMemory{}, Deleted: map[types.UID]time.Time{}}},
	}
	for i := range s.Accounts {
		p.accounts[s.Accounts[i].Role] = &s.Accounts[i]
	}
	for _, node := range s.Nodes {
		p.addNode(node)
	}
	for _, object := range s.NodeAttachments {
		p.addNodeAttachment(object)
	}
	for i := range s.Attachments {
		p.addAttachment(s.Attachments[i])
	}
	for _, pod := range s.Bystanders {
		p.addPod(pod)
	}
	slices.SortFunc(p.attachments, func(a, b *attachment) int { return compareRefs(a.ref, b.ref) })
	slices.SortFunc(p.nodeAttachments, func(a, b *nodeAttachment) int { return compareRefs(a.ref, b.ref) })
	return p
}

func (p *pass) addNode(node *corev1.Node) {
	p.nodes[node.Name] = node
	if id, _ := InstanceID(node); id != "" {
		p.zones[id] = node.Labels[corev1.LabelTopologyZone]
		p.put(id, node.Name)
	}
	for _, a := range node.Status.Addresses {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			p.put(address.Unmap().String(), node.Name)
		}
	}
}

func (p *pass) addNodeAttachment(object *v1alpha1.Attachment) {
	n := &nodeAttachment{Attachment: object, ref: RefOf(object), status: *object.Status.DeepCopy()}
	memory, known := p.Memory.Nodes[object.UID]
	if !known || memory.Generation != object.Generation {
		memory = NodeMemory{object.Generation, p.Now}
	}
	p.out.Memory.Nodes[object.UID], n.since = memory, memory.Since
	for _, g := range object.Status.Groups {
		n.onRecord += len(g.Targets) + len(g.Leaving)
	}
	p.nodeAttachments = append(p.nodeAttachments, n)
	// A Node may be registered again, and not say yet which machine it is.
	p.put(object.Spec.Instance, object.Name)
	if n.detach() {
		p.leaves[object.Name] = "node " + object.Name + " is to be out of its load balancers"
	}
}

func (p *pass) addAttachment(in GroupAttachment) {
	a := &attachment{GroupAttachment: in, ref: in.Ref(), role: in.Role(), status: *in.Object.Status.DeepCopy()}
	if s := in.Object.Spec.NodeSelector; s != nil {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			a.Unknown = "nodeSelector: " + err.Error()
		}
		a.nodes = map[string]*corev1.Node{}
		for name, node := range p.nodes {
			if err == nil && selector.Matches(labels.Set(node.Labels)) {
				a.nodes[name] = node
			}
		}
	}
	for _, g := range in.Object.Status.Groups {
		a.onRecord += len(g.Targets) + len(g.Leaving)
	}
	for _, pod := range append(slices.Clone(in.Pods), in.Neighbours...) {
		p.addPod(pod)
		p.rememberDeletion(pod)
		p.selectedBy[pod.UID] = append(p.selectedBy[pod.UID], a)
	}
	p.attachments = append(p.attachments, a)
}

// rememberDeletion remembers since when a pod is known to be deleted.
func (p *pass) rememberDeletion(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		return
	}
	since, known := p.Memory.Deleted[pod.UID]
	if !known {
		since = p.Now
	}
	p.out.Memory.Deleted[pod.UID] = since
}

// addPod notes where the address of a pod is. One that has ended has none any more,
// whatever its status says.
func (p *pass) addPod(pod *corev1.Pod) {
	if hasEnded(pod) || pod.Spec.NodeName == "" {
		return
	}
	for _, ipv6 := range []bool{false, true} {
		ip, _ := Address(pod, ipv6)
		p.put(ip, pod.Spec.NodeName)
		p.pods[ip] = p.pods[ip] || !pod.Spec.HostNetwork
		p.lives[podAddress{pod.Namespace, ip}] = true
	}
}

// put notes that what has an ID is on a node. Two nodes may say so of one.
func (p *pass) put(id, node string) {
	if id != "" && !slices.Contains(p.on[id], node) {
		p.on[id] = append(p.on[id], node)
		slices.Sort(p.on[id])
	}
}
