package targets

import (
	"fmt"
	"slices"
	"strings"
)

// NamespacesTag on a target group names the namespaces, separated by spaces, whose
// TargetGroupAttachments it takes new targets from. Without it they may be of any, unless the
// operator makes it a must.
const NamespacesTag = "ingressdaemonsets.mumoshu.github.io/namespaces"

func (p *pass) admissionTo(g *group, namespace string) admission {
	names, tagged := g.tags[NamespacesTag]
	switch {
	case g.tags == nil:
		return admission{"the tags of target group " + g.Name + " are being read, which say of which namespaces it takes targets", true}
	case !tagged && p.RequireGroupTag:
		return admission{why: fmt.Sprintf("target group %s has no tag %s, without which it takes no new target: whoever manages it has to add the tag, with %s among its namespaces", g.Name, NamespacesTag, namespace)}
	case tagged && !slices.Contains(strings.Fields(names), namespace):
		return admission{why: fmt.Sprintf("target group %s takes no new target of namespace %s: whoever manages it has to name that in its tag %s", g.Name, namespace, NamespacesTag)}
	}
	return admission{}
}

// admit leaves a part, where the group takes no new target of its namespace, what it has on
// record: that stays, or is put back where its node was out, until it leaves in the usual way.
// While it is not known, what another object has on record of the same stays as well: it may be
// about to go over to this one.
func (p *pass) admit(g *group, t *part) {
	if !t.asks() && !t.unknown || g.binding != nil {
		return
	}
	if t.admission = p.admissionTo(g, t.Object.Namespace); t.admission.why == "" {
		return
	}
	t.members = slices.DeleteFunc(t.members, func(m member) bool {
		target := g.target(m.Target)
		return !g.heldBy(target, t.ref) && !(t.admission.unread && len(g.at[target]) > 0)
	})
	for i := range t.members {
		t.members[i].Stay = t.members[i].Stay || t.members[i].In
	}
}
