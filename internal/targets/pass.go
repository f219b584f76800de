package targets

import (
	"fmt"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

func (a *attachment) setIsGone() bool {
	return a.Object.Spec.IngressDaemonSet != nil && a.Set == nil
}

// noSet says of an attachment that its set is gone.
func (a *attachment) noSet() string {
	return "there is no IngressDaemonSet " + a.Object.Spec.IngressDaemonSet.Name
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

// group is a target group in one pass: who has a part in it, what they want, and what is
// decided.
type group struct {
	*KnownGroup
	key GroupKey
	// role is the one by which it is reached, roles are all that list it.
	role  v1alpha1.AssumeRole
	roles []v1alpha1.AssumeRole
	// tags are its own as any role read them, nil where none did.
	tags map[string]string
	// binding is what has the group to itself, nil where nothing has.
	binding *Binding
	// unreadable is a record of the group that cannot be read, empty for none.
	unreadable string
	// held are the records, in the order of their targets; at has them by target.
	held []held
	at   map[Target][]held

	parts []*part
	nodes []*nodeAttachment
	// adds are objects that the group is to be new in, full are Attachments that have no
	// room for it.
	adds map[Ref]bool
	full []*nodeAttachment
	// unheard says whether TargetGroupAttachments may be on it that are not known to be. unknown is
	// whether that is so, or it is not known what a part selects.
	unheard bool
	unknown bool
	// membersAt are the members of parts that ask for something, by their targets.
	membersAt map[Target][]member
	// speakers are the parts that targets are members of, borrowers the Attachments that
	// want others.
	speakers  map[Target]*part
	borrowers map[Target]Ref
	wants     []Want

	// found are the targets that are registered, or were seen to leave, by their IDs.
	found map[string][]Target

	state    GroupState
	decision GroupDecision
	// leaving are those of the targets on record that are to leave.
	leaving map[Target]bool
	// on are the reports about what may concern a node, by its name.
	on map[string][]Report
}

// part is what a TargetGroupAttachment has to do with a group.
type part struct {
	*attachment
	// matches says whether the attachment is on the group.
	matches bool
	// members are what it selects, each with the target that it has in the group. Of one
	// that is no longer on the group they are what it would select.
	members []member
	skipped []Skip
	faults  []string
	// admission says whether the group takes new targets of its namespace.
	admission admission
	// unclear says whether the tags are not read by which it is known whether it is still on the
	// group: what is there stays.
	unclear bool
	// unknown says whether it is not known what it selects, so that nothing is missing.
	unknown bool
	// unsure says whether something that it selects may be in the group as a target that is
	// not among its members.
	unsure bool
	// full says why the status of its object has no room for the group, or for some of its targets
	// there, which are left; empty where it has. crowded says whether it has none for those of others.
	full    string
	left    map[Target]bool
	crowded bool
}

// asks reports whether its members are to be in the group, or out, as they say.
func (t *part) asks() bool {
	return t.matches && t.Object.DeletionTimestamp == nil && !t.unknown && (t.full == "" || t.left != nil)
}

// owns reports whether all that is in the group is its own: not where the group takes nothing new of
// its namespace.
func (t *part) owns() bool {
	return t.asks() && !t.crowded && t.admission.why == "" && t.Object.Spec.Ownership == v1alpha1.OwnGroup
}

// member is a pod or a node of a TargetGroupAttachment and what it wants of a group.
type member struct {
	Want
	// node is empty where it is not known.
	node string
	// ready says whether the pod's containers are, so that its target can be expected to
	// get healthy; pod is nil for a node.
	ready bool
	pod   *corev1.Pod
	// silent says whether nothing is wanted of the target: it is only known to be the pod's.
	silent bool
}

// admission reports whether a group takes new targets of a namespace.
type admission struct {
	// why it does not, empty where it does.
	why string
	// unread says whether that is only not known yet.
	unread bool
}

// held is a record, and in whose status it stands.
type held struct {
	Record
	by Ref
}

// onRecord is a target on record in a group.
type onRecord struct {
	key GroupKey
	Target
}

// groupOnRecord is a group in some object's status.
type groupOnRecord struct {
	id string
	// roles are those by which the group may be reached.
	roles []v1alpha1.AssumeRole
	// any says whether the status has targets in the group.
	any bool
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

// hasAttachment reports whether an Attachment is about an instance.
func (p *pass) hasAttachment(id string) bool {
	return slices.ContainsFunc(p.nodeAttachments, func(n *nodeAttachment) bool { return n.Spec.Instance == id })
}

// moved reports whether a node is out of its load balancers, or on its way there or back.
func (p *pass) moved(node string) bool {
	return slices.ContainsFunc(p.nodeAttachments, func(n *nodeAttachment) bool { return n.Name == node })
}

// isUnnamedNode reports whether a node has no providerID yet, or is not known.
func (p *pass) isUnnamedNode(name string) bool {
	node := p.nodes[name]
	return node == nil || node.Spec.ProviderID == ""
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

// asRole says of a role why something is not known, empty where all is.
func asRole(role v1alpha1.AssumeRole, why string) string {
	if why == "" || role == (v1alpha1.AssumeRole{}) {
		return why
	}
	return "as role " + role.ARN + ": " + why
}

// wake asks for a decision at a moment.
func (p *pass) wake(at time.Time) {
	if !at.IsZero() && (p.out.WakeAt.IsZero() || at.Before(p.out.WakeAt)) {
		p.out.WakeAt = at
	}
}
