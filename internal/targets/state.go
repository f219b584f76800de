package targets

import (
	"cmp"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is everything that Plan decides from. Nothing in it is written to.
type State struct {
	Now time.Time
	// SettleTimes are how long each kind of load balancer may send new connections to a
	// target that was deregistered, where no TargetGroupAttachment says otherwise.
	SettleTimes map[Balancer]time.Duration

	// Attachments and NodeAttachments are all there are, in any order.
	Attachments     []GroupAttachment
	NodeAttachments []*v1alpha1.Attachment
	// Behind says whether there may be TargetGroupAttachments or Attachments, or records of theirs, that
	// are not known yet: another leader may have written them. Late says why where that is so for long, empty
	// where it is not.
	Behind bool
	Late   string
	// Slow says why the calls of the decisions of before were not made, empty where they were.
	Slow string
	// Nodes are all of the cluster. NodesBehind says whether some may not be known yet as they are.
	Nodes       []*corev1.Node
	NodesBehind bool
	// Bystanders are pods of anybody whose addresses are on record. They tell what lives at an
	// address that nobody selects any more, and on which node it is. They are needed only while
	// there is such an address, or a node is to be out.
	Bystanders []*corev1.Pod
	// Told are the pods, by UID, that this process has told that traffic may come to them, and has not
	// begun to tell otherwise since.
	Told map[types.UID]bool
	// Bindings say which groups somebody else has to itself.
	Bindings Bindings
	// Accounts are those that are connected, in any order.
	Accounts []Account
	// Detaching says whether nodes may be asked to be out at any moment, so that what they
	// are in is to be known before. DetachTagged are the tags of the groups in which they
	// are looked for; none for all groups. DetachTimeout is how long somebody waits for a
	// node to be out at most, 0 for nobody.
	Detaching     bool
	DetachTagged  map[string]string
	DetachTimeout time.Duration
	// RequireGroupTag says whether a group without NamespacesTag takes new targets of nobody.
	RequireGroupTag bool
	// Quiet is what the health checkers of nodes told last, by node and port.
	Quiet map[string]map[int32]Quiet
	// Memory is that of the last decision of this process, empty for none.
	Memory Memory
}

// GroupAttachment is a TargetGroupAttachment and what it selects.
type GroupAttachment struct {
	Object *v1alpha1.TargetGroupAttachment
	// Set is the IngressDaemonSet that it names, nil where there is none of that name.
	Set *v1alpha1.IngressDaemonSet
	// Templates are those of the set's revisions, by the value of LabelRevision.
	Templates map[string]corev1.PodSpec
	// Service is the one that it names, nil where it names none.
	Service *corev1.Service
	// Pods are those that it selects, of whatever phase.
	Pods []*corev1.Pod
	// Neighbours are the pods of all IngressDaemonSets in its namespace. They are needed
	// only where Set is missing.
	Neighbours []*corev1.Pod
	// Unknown says why what it selects is not known, empty where it is.
	Unknown string
	// Behind says whether there may be pods or nodes that it selects and that are not known yet,
	// since another leader has recorded what it saw of them: what is missing is not gone. Late
	// says why where that is so for long, empty where it is not.
	Behind bool
	Late   string
}

// Bindings are the TargetGroupBindings that have a group to themselves.
type Bindings struct {
	// Listed says whether they ever were, Failure why they could not be listed last.
	Listed  bool
	Failure string
	All     []Binding
}

// Binding has a group to itself: its controller deregisters whatever it did not
// register.
type Binding struct {
	// Name is its namespace and name.
	Name string
	// ARN says which group it is about, or else Group, the name of one.
	ARN, Group string
}

// Account is what is known of the cloud as one role, the zero one for ourselves.
type Account struct {
	Role v1alpha1.AssumeRole
	// Failure is why its groups could not be listed last, empty where they could.
	Failure string
	// Refused says whether that is because the operator does not permit the role.
	Refused bool
	// Region is where its groups are, empty while that is not known.
	Region string
	// ListedAt is when the newest list of all groups was asked for; zero where none was
	// answered yet. Those that somebody names may be known before, and of some that are
	// listed the tags may be missing.
	ListedAt time.Time
	// Missing are groups, by ID, that were asked for by themselves and are not there, Owners are those
	// of groups that were ever known, as OwnerOf has them.
	Missing, Owners map[string]bool
	// LooksFor are the instances that its groups are looked through for, and since when.
	LooksFor map[string]time.Time
	// LookFailure is why groups could not be looked through last, empty where they could,
	// and LooksPerSecond how many are, 0 where that is not known.
	LookFailure    string
	LooksPerSecond float64
	Groups         []KnownGroup
}

// KnownGroup is a group as it was described last, its inventory, and what became of
// calls to it. See GroupState for the fields.
type KnownGroup struct {
	Group
	Registered map[Target]Health
	// ReadAt is zero where the group is known and its inventory, or its attributes, are not.
	ReadAt time.Time
	// SweptAt is when it was looked through last for instances of nodes, and Instances are
	// those that were found then. That may be long ago.
	SweptAt   time.Time
	Instances map[string]bool
	// Left is when instances were first missing that were found before, see Seen.
	Left    map[string]time.Time
	Live    bool
	Answers map[Target]Answer
	Refused []Refusal
	// Failing is why calls to the group fail as a whole, empty while they do not.
	Failing string
}

// Memory is what is remembered from one decision to the next: one value for each group
// and each object, dropped with it. All of it may be lost.
type Memory struct {
	Groups map[GroupKey]GroupMemory
	// Nodes are by the UID of an Attachment.
	Nodes map[types.UID]NodeMemory
	// Zones are those of instances, by their Nodes, and of those that are no Node's any more
	// for as long as they are registered.
	Zones map[string]string
	// Deleted is since when pods are known to be deleted, by their UID and our clock.
	Deleted map[types.UID]time.Time
}

// GroupKey names a group: an ARN is one in all accounts, a classic load balancer's name
// only in its own.
type GroupKey struct {
	Role v1alpha1.AssumeRole
	ID   string
}

// GroupMemory is what is remembered of a group.
type GroupMemory struct {
	// Role is as whom it is reached: calls as two roles would overtake each other.
	Role      v1alpha1.AssumeRole
	Sightings map[Target]Sighting
}

// NodeMemory is since when an Attachment has asked for what it does, by our clock.
type NodeMemory struct {
	Generation int64
	Since      time.Time
}

// Ref names an object.
type Ref struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

// Kinds of a Ref.
const (
	KindGroupAttachment = "TargetGroupAttachment"
	KindNodeAttachment  = "Attachment"
	KindPod             = "Pod"
)

// RefOf names an Attachment.
func RefOf(a *v1alpha1.Attachment) Ref {
	return Ref{Kind: KindNodeAttachment, Name: a.Name, UID: a.UID}
}

// Ref names the TargetGroupAttachment.
func (a *GroupAttachment) Ref() Ref {
	return Ref{KindGroupAttachment, a.Object.Namespace, a.Object.Name, a.Object.UID}
}

// Role is as whom its groups are reached.
func (a *GroupAttachment) Role() v1alpha1.AssumeRole { return roleOf(a.Object.Spec.AssumeRole) }

func roleOf(r *v1alpha1.AssumeRole) v1alpha1.AssumeRole {
	if r == nil {
		return v1alpha1.AssumeRole{}
	}
	return *r
}

func compareRoles(a, b v1alpha1.AssumeRole) int {
	return cmp.Or(cmp.Compare(a.ARN, b.ARN), cmp.Compare(a.ExternalID, b.ExternalID))
}

func compareRefs(a, b Ref) int {
	return slices.Compare([]string{a.Kind, a.Namespace, a.Name, string(a.UID)}, []string{b.Kind, b.Namespace, b.Name, string(b.UID)})
}

// keyOf is a group's, as it is listed by a role.
func keyOf(role v1alpha1.AssumeRole, id string) GroupKey {
	if len(id) > 4 && id[:4] == "arn:" {
		return GroupKey{ID: id}
	}
	return GroupKey{role, id}
}
