package detach

import (
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// marks are what should stand on a Node.
type marks struct {
	// out says whether Kubernetes is told to exclude the node, too.
	out       bool
	detaching bool
	// timestamp is when its traffic had stopped, evidence how that is known.
	timestamp, evidence string
	attachedAt          string
	// taint keeps pods that are stopped from coming back.
	taint bool
}

// Patch is what changes on a Node. Nil pointers remove.
type Patch struct {
	Annotations, Labels map[string]*string
	// Taint says whether our taint is to be there, nil where it is as it should be.
	Taint *bool
	// Detaching is what the condition NodeBeingDetached is to be.
	Detaching *bool
}

// Stamps reports whether a patch says anew that all traffic has stopped.
func (p *Patch) Stamps() bool {
	return p != nil && p.Annotations[v1alpha1.AnnotationDetachmentTimestamp] != nil
}

// patch brings the Node to its marks, nil where it has them.
func (n *Node) patch(m marks) *Patch {
	p := &Patch{Annotations: map[string]*string{}, Labels: map[string]*string{}}
	p.annotate(n, v1alpha1.AnnotationNodeDetaching, n.detaching(m))
	p.annotate(n, v1alpha1.AnnotationDetachmentTimestamp, m.timestamp)
	p.annotate(n, v1alpha1.AnnotationDetachmentEvidence, m.evidence)
	p.annotate(n, v1alpha1.AnnotationAttachmentTimestamp, m.attachedAt)
	p.exclude(n, m.out)
	if tainted := slices.ContainsFunc(n.Taints, isOurs); tainted != m.taint {
		p.Taint = &m.taint
	}
	if n.Detaching != m.detaching {
		p.Detaching = &m.detaching
	}
	if len(p.Annotations)+len(p.Labels) == 0 && p.Taint == nil && p.Detaching == nil {
		return nil
	}
	return p
}

// detaching is "true" from the first step until all is attached again, then
// "false"; a node that was never detached has no such annotation.
func (n *Node) detaching(m marks) string {
	_, before := n.Annotations[v1alpha1.AnnotationNodeDetaching]
	switch {
	case m.detaching:
		return "true"
	case before:
		return "false"
	}
	return ""
}

func (p *Patch) annotate(n *Node, key, value string) {
	switch now, there := n.Annotations[key]; {
	case value == "" && there:
		p.Annotations[key] = nil
	case value != now:
		p.Annotations[key] = &value
	}
}

// exclude sets Kubernetes' label unless it is there, and removes only our own.
func (p *Patch) exclude(n *Node, out bool) {
	value, there := n.Labels[v1alpha1.LabelExclude]
	ours := v1alpha1.ExcludedByUs
	switch {
	case out && !there:
		p.Labels[v1alpha1.LabelExclude] = &ours
	case !out && there && value == ours:
		p.Labels[v1alpha1.LabelExclude] = nil
	}
}

func isOurs(t corev1.Taint) bool { return t.Key == v1alpha1.TaintDetaching }
