package targets

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Plan decides about all groups and all objects at once. It is deterministic, and does
// not depend on the order of what it is given, nor on what objects are called.
//
// Its invariants: all records are read before anything is wanted, so that what is ours
// does not depend on who asks first; where a record cannot be read, nothing is
// concluded about its group; and a node, a finalizer or a drain hook is let go only by
// the inventories of all groups that may concern it.
func Plan(s State) Decision {
	p := newPass(s)
	p.readRecords()
	p.reached = p.reachedGroups()
	for _, g := range p.reached {
		p.byKey[g.key] = g
	}
	p.findUnfound()
	for _, g := range p.reached {
		p.takeParts(g)
		if len(g.parts)+len(g.nodes) > 0 {
			p.groups = append(p.groups, g)
			g.decide(p)
			g.indexReports(p)
		}
	}
	p.planGroups()
	p.tellHooks()
	for _, a := range p.attachments {
		p.tellGates(a)
		p.decideAttachment(a)
	}
	for _, n := range p.nodeAttachments {
		p.decideNodeAttachment(n)
	}
	p.rememberZones()
	p.planAccounts()
	return p.out
}

// pass holds one decision while it is made. What is indexed by newPass does not change.
type pass struct {
	State
	attachments     []*attachment
	nodeAttachments []*nodeAttachment
	accounts        map[v1alpha1.AssumeRole]*Account
	nodes           map[string]*corev1.Node
	// on are the names of the nodes that a target may be on, by its ID.
	on map[string][]string
	// pods are the addresses of pods that have a network of their own, lives those at which a pod
	// of a namespace is.
	pods  map[string]bool
	lives map[podAddress]bool
	// zones are those of instances. An ID that is not in it is no known Node's.
	zones map[string]string
	// lost are the zones of those that are no known Node's any more, and registered.
	lost map[string]string
	// leaves says why a node is to be out, by name.
	leaves map[string]string

	// held are the records of all objects, and unreadable why one is not among them.
	held       map[GroupKey][]held
	unreadable map[GroupKey]string
	// recordedAs are the roles as which records were made.
	recordedAs map[v1alpha1.AssumeRole]bool
	// recordedRole is the first of them, by group.
	recordedRole map[GroupKey]v1alpha1.AssumeRole
	// groupsOnRecord are the groups of the records of all objects, and unfound says why one in which
	// something is on record is not known, though nobody can say that it is gone.
	groupsOnRecord map[GroupKey][]groupOnRecord
	unfound        map[GroupKey]string
	// recordedIn are those of TargetGroupAttachments by the namespace of these and the ID of their
	// target, and strays the IDs by namespace of instances among them that no known Node is.
	recordedIn map[podAddress][]onRecord
	strays     map[string][]string
	// selectedBy are the attachments that select a pod, or look after it, by its UID.
	selectedBy map[types.UID][]*attachment
	// unplaced says whether it is not known on which node something is that an attachment has on record,
	// and foreign are the targets on nodes that are left alone; both are nil until somebody asks.
	unplaced *bool
	foreign  map[string][]string
	// reached are all groups that are known, byKey by their keys, groups those in which somebody has
	// a part.
	reached, groups []*group
	byKey           map[GroupKey]*group
	out             Decision
}

// podAddress is an address of a pod of a namespace.
type podAddress struct{ namespace, ip string }

// attachment is a TargetGroupAttachment in one pass.
type attachment struct {
	GroupAttachment
	ref  Ref
	role v1alpha1.AssumeRole
	// nodes are those that it selects itself, nil where it selects pods.
	nodes map[string]*corev1.Node
	// status is what is known of it, to be written.
	status v1alpha1.TargetGroupAttachmentStatus
	// taken are its parts in groups, in their order.
	taken []taken
	// onRecord is how many targets its status holds, with those of groups that are taken up.
	onRecord int
	// gates says whether a gate of its pods is to be written.
	gates bool
}

// taken is a part that was taken in a group.
type taken struct {
	*group
	part *part
}

// nodeAttachment is an Attachment in one pass.
type nodeAttachment struct {
	*v1alpha1.Attachment
	ref    Ref
	since  time.Time
	status v1alpha1.AttachmentStatus
	// onRecord is how many targets its status holds, with those that are to be taken out.
	onRecord int
}

func (n *nodeAttachment) detach() bool { return n.Spec.Wanted == v1alpha1.WantDetached }

// answered reports whether its status says that all is where this generation wants it. That
// stands until something else is known: another leader has to read all groups first.
func (n *nodeAttachment) answered() bool {
	return n.Status.Done && n.Answered()
}

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
	if over(pod) || pod.Spec.NodeName == "" {
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

// zoneOf is the zone of an instance: that of its Node, or of the Node that it was. A Node may be
// gone, or registered anew, while its machine serves on.
func (p *pass) zoneOf(id string) string {
	if zone, known := p.zones[id]; known {
		return zone
	}
	return p.Memory.Zones[id]
}

// keepZone keeps the zone of an instance that is no known Node's any more.
func (p *pass) keepZone(id string) {
	if _, known := p.zones[id]; !known && p.Memory.Zones[id] != "" {
		p.lost[id] = p.Memory.Zones[id]
	}
}

// rememberZones remembers those of lost instances also where nobody decides about the groups in
// which they were found, those of nodes that are moved, and of what is on record, which may be out
// now and put back: somebody may decide about them in the next pass.
func (p *pass) rememberZones() {
	for _, records := range p.held {
		for _, h := range records {
			p.keepZone(h.ID)
		}
	}
	for id := range p.Memory.Zones {
		if p.hasAttachment(id) || slices.ContainsFunc(p.reached, func(g *group) bool { return g.Instances[id] }) {
			p.keepZone(id)
		}
	}
	p.out.Memory.Zones = p.zones
	if len(p.lost) > 0 {
		p.out.Memory.Zones = maps.Clone(p.zones)
		maps.Copy(p.out.Memory.Zones, p.lost)
	}
}

// hasAttachment reports whether an Attachment is about an instance.
func (p *pass) hasAttachment(id string) bool {
	return slices.ContainsFunc(p.nodeAttachments, func(n *nodeAttachment) bool { return n.Spec.Instance == id })
}

// wake asks for a decision at a moment.
func (p *pass) wake(at time.Time) {
	if !at.IsZero() && (p.out.WakeAt.IsZero() || at.Before(p.out.WakeAt)) {
		p.out.WakeAt = at
	}
}

// unlisted says why the groups of a role are not known, empty where all are.
func (p *pass) unlisted(role v1alpha1.AssumeRole) string {
	account := p.accounts[role]
	switch {
	case !p.Bindings.Listed && p.Bindings.Failure != "":
		return p.Bindings.Failure
	case !p.Bindings.Listed:
		return "the TargetGroupBindings are being read"
	case account == nil || account.ListedAt.IsZero() && account.Failure == "":
		return "the target groups are being read"
	case account.ListedAt.IsZero():
		return account.Failure
	}
	return ""
}

// unlistedFor says why the groups of an attachment are not known, empty where all are.
func (p *pass) unlistedFor(a *attachment) string {
	if why := p.unlisted(a.role); why != "" || a.Object.Spec.TargetGroup.Tags == nil {
		return why
	}
	groups, untagged := p.accounts[a.role].Groups, 0
	for i := range groups {
		if groups[i].Tags == nil {
			untagged++
		}
	}
	if untagged == 0 {
		return ""
	}
	return fmt.Sprintf("the tags of %d of %d target groups are being read", untagged, len(groups))
}

// roles are those that somebody's groups are reached as, ours first.
func (p *pass) roles() []v1alpha1.AssumeRole {
	needed := map[v1alpha1.AssumeRole]bool{}
	if len(p.nodeAttachments) > 0 || p.Detaching {
		needed[v1alpha1.AssumeRole{}] = true
	}
	for _, a := range p.attachments {
		needed[a.role] = true
	}
	for role := range p.recordedAs {
		needed[role] = true
	}
	var out []v1alpha1.AssumeRole
	for role := range needed {
		out = append(out, role)
	}
	slices.SortFunc(out, compareRoles)
	return out
}
