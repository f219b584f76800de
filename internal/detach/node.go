package detach

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

const (
	// rememberFor is how long a node may be gone until it is not waited for any more.
	rememberFor = 24 * time.Hour
	// recordEvery is how often it is written down how long that has been: so much is counted
	// anew at most by each leader that follows.
	recordEvery = time.Hour
)

// The way of a node. Its invariants: it is marked as detaching before anything is
// taken out, and until all of it takes traffic again; nobody else is told to leave
// it out before all that it is attached to is remembered; the timestamp is on the
// Node only while all its traffic has stopped.
//
//	attached -> marked -> Attachment, to detach -> remembered, excluded -> out ->
//	timestamp [-> pods stopped] -> no reason -> timestamp removed, included ->
//	Attachment, to attach -> attached -> unmarked -> Attachment deleted
func (p *planner) node(n *Node) {
	d := NodeDecision{Name: n.Name, Phase: Attached}
	switch {
	case !n.Exists:
		p.gone(n, &d)
	case n.Attachment != nil && n.Attachment.Instance != "" && n.Unnamed:
		p.unnamed(n, &d)
	case n.Attachment != nil && n.Attachment.Instance != "" && n.Attachment.Instance != n.Instance:
		d.Reason = n.Reason(p.Reasons)
		n.anotherMachine(&d)
	default:
		d.Reason = n.Reason(p.Reasons)
		p.decide(n, &d)
	}
	if n.Exists && n.GoneRecorded > 0 {
		d.Gone = new(time.Duration(0))
	}
	d.Status = p.answer(n, d)
	if d.Phase != Attached || d.Patch != nil || d.Gone != nil {
		p.out.Nodes = append(p.out.Nodes, d)
	}
}

// anotherMachine is of the same name, and was never taken out by us: nothing is to be put
// back. Webhooks were asked about the node by its name, and may leave it out still.
func (n *Node) anotherMachine(d *NodeDecision) {
	d.Phase, d.Waits, d.Attachment = Attaching, "it came back on another machine", Delete
	if len(n.Webhooks) > 0 {
		d.Attachment = WriteAttach
	}
}

// unnamed changes nothing until the Node says which machine it is: it may be the one that
// was taken out, or another that was not.
func (p *planner) unnamed(n *Node, d *NodeDecision) {
	d.Phase, d.Waits = Attaching, "its Node does not say yet which machine it is"
	if n.Attachment.Detach {
		d.Phase = Detaching
	}
	d.Patch = n.patch(marks{out: n.Attachment.Detach && n.Attachment.Remembered, detaching: true})
}

func (p *planner) decide(n *Node, d *NodeDecision) {
	switch a := n.Attachment; {
	case d.Reason != "" && a == nil && !p.mayBegin(n):
		d.Phase, d.Waits = Held, "too few other nodes are attached"
		// It may have been marked before others were taken out.
		d.Patch = n.patch(n.unmarked())
	case d.Reason != "" && (a == nil || !a.Detach || a.Instance != n.Instance):
		d.Phase, d.Waits, d.Attachment = Detaching, "what it is attached to is being remembered", WriteDetach
		d.Patch = n.patch(marks{detaching: true})
		p.begin(n)
	case d.Reason != "":
		p.takeOut(n, d)
	case a != nil && a.Detach:
		d.Phase, d.Waits, d.Attachment = Attaching, "its targets return", WriteAttach
		d.Patch = n.patch(marks{detaching: true})
	case a != nil:
		p.putBack(n, d)
	default:
		// What is left where somebody deleted the Attachment.
		d.Patch = n.patch(n.unmarked())
	}
}

// unmarked are the marks of a node that is attached, and of which nothing is to be done.
func (n *Node) unmarked() marks {
	return marks{attachedAt: n.Annotations[v1alpha1.AnnotationAttachmentTimestamp]}
}

// gone keeps the Attachment of a node that may return, such as after a reboot.
func (p *planner) gone(n *Node, d *NodeDecision) {
	gone := n.GoneBefore + p.Now.Sub(n.GoneSince)
	d.Phase, d.Waits = Gone, "its Node is gone; what it was attached to is remembered for a day"
	if gone >= rememberFor {
		d.Attachment = Delete
		return
	}
	if gone-n.GoneRecorded >= recordEvery {
		d.Gone = new(gone.Truncate(time.Second))
	}
	p.wake(p.Now.Add(min(rememberFor-gone, recordEvery)))
}

// takeOut waits until all traffic to the node has stopped, and says so on it.
func (p *planner) takeOut(n *Node, d *NodeDecision) {
	d.Phase = Detaching
	p.ask(n, d, func(w Webhook) bool { return w.Detached })
	m := marks{out: n.Attachment.Remembered, detaching: true}
	if d.Waits = n.waits(n.hasDetached); d.Waits == "" {
		d.Phase = Detached
		m.timestamp, m.evidence = n.Annotations[v1alpha1.AnnotationDetachmentTimestamp], n.evidence()
		if m.timestamp == "" {
			m.timestamp = p.Now.UTC().Format(time.RFC3339)
		}
		m.taint = n.GoesAway(p.Reasons)
	}
	if m.taint {
		p.stopPods(n, d)
	}
	d.Patch = n.patch(m)
}

// hasDetached reports whether a webhook's load balancer has taken the node out: by its answer, or by what
// stands on the Node while there is none. Another leader has to ask anew, the webhook may be down, and
// what this says is removed before the node is attached again.
func (n *Node) hasDetached(w Webhook) bool {
	said := n.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != "" &&
		slices.Contains(strings.Split(n.Annotations[v1alpha1.AnnotationDetachmentEvidence], ", "), evidenceOf(w))
	return w.Detached || said && !w.Undone
}

func evidenceOf(w Webhook) string { return "webhook " + w.Name }

// putBack waits until all that was attached is again.
func (p *planner) putBack(n *Node, d *NodeDecision) {
	d.Phase = Attaching
	p.ask(n, d, func(w Webhook) bool { return w.Attached })
	if d.Waits = n.waits(func(w Webhook) bool { return w.Attached }); d.Waits != "" {
		d.Patch = n.patch(marks{detaching: true})
		return
	}
	d.Patch = n.patch(marks{attachedAt: p.Now.UTC().Format(time.RFC3339)})
	d.Attachment = Delete
}

// waits is what is left to be done, empty where nothing is.
func (n *Node) waits(answered func(Webhook) bool) string {
	if !n.Attachment.Done {
		return n.Attachment.Waits
	}
	for _, w := range n.Webhooks {
		if !answered(w) {
			return cmp.Or(w.Waits, "webhook "+w.Name+" has not answered yet")
		}
	}
	return ""
}

// evidence says how it is known that the traffic has stopped.
func (n *Node) evidence() string {
	var all []string
	if n.Attachment.Evidence != "" {
		all = append(all, n.Attachment.Evidence)
	}
	for _, w := range n.Webhooks {
		all = append(all, evidenceOf(w))
	}
	if len(all) == 0 {
		return "no load balancer has it"
	}
	return strings.Join(all, ", ")
}

// ask asks the webhooks that have not answered that it is done, where it is time to.
func (p *planner) ask(n *Node, d *NodeDecision, answered func(Webhook) bool) {
	for _, w := range n.Webhooks {
		switch {
		case answered(w):
		case p.Now.Before(w.RetryAt):
			p.wake(w.RetryAt)
		default:
			d.Ask = append(d.Ask, w.Name)
		}
	}
	slices.Sort(d.Ask)
}
