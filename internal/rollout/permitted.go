package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

var nodeDetacher = Detacher{v1alpha1.AnnotationNodeDetached, v1alpha1.AnnotationDetachmentTimestamp}

// String is as the controller's flag names it.
func (d Detacher) String() string {
	if d.Answer == "" {
		return d.Ask
	}
	return d.Ask + "=" + d.Answer
}

// forbiddenAnnotation says which annotation on Nodes the strategy names that is of no detacher
// which the operator permits, and what to change; empty where there is none.
func (p *pass) forbiddenAnnotation() string {
	a := p.strategy.AnnotateNode
	if a == nil {
		return ""
	}
	var answers []string
	asked := false
	for _, d := range append([]Detacher{nodeDetacher}, p.Detachers...) {
		if d.Ask == a.Key {
			asked = true
			answers = append(answers, d.Answer)
		}
	}
	answers = slices.DeleteFunc(answers, func(key string) bool { return key == "" })
	operator := ", or have whoever operates the controller start it with --detach-annotations=" + Detacher{a.Key, a.TimestampKey}.String()
	switch {
	case !asked:
		return fmt.Sprintf("annotateNodeToDetach names %s, which is not permitted on Nodes: set its key to %s%s", a.Key, nodeDetacher.Ask, operator)
	case a.TimestampKey == "" || slices.Contains(answers, a.TimestampKey):
		return ""
	case len(answers) == 0:
		return fmt.Sprintf("waitForDetachmentByAnnotatedTimestamp names %s, and nothing is known to answer %s: remove it%s", a.TimestampKey, a.Key, operator)
	default:
		return fmt.Sprintf("waitForDetachmentByAnnotatedTimestamp names %s, which does not answer %s: set its key to %s%s", a.TimestampKey, a.Key, strings.Join(answers, " or "), operator)
	}
}

// mustRetreat reports whether a marked node is to be put back before its pods are touched, since
// its detacher may not be asked. One that was asked before that was forbidden is finished.
func (p *pass) mustRetreat(v *view) bool {
	return p.forbidden != "" && !v.asked() && !v.outOfTurn() && !v.updatedInTurn()
}
