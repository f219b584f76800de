package detach

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// node is a ready node that serves.
func node(name string, changes ...func(*Node)) Node {
	n := Node{Name: name, Exists: true, Ready: true, Instance: "i-" + name, Labels: map[string]string{}, Annotations: map[string]string{}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

func annotated(key, value string) func(*Node) {
	return func(n *Node) { n.Annotations[key] = value }
}

func labelled(key, value string) func(*Node) {
	return func(n *Node) { n.Labels[key] = value }
}

func taintedWith(key string) func(*Node) {
	return func(n *Node) {
		n.Taints = append(n.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func cordoned(n *Node) { n.Cordoned = true }

// attachment is one that has been answered.
func attachment(detach, done bool) func(*Node) {
	return func(n *Node) {
		n.Attachment = &Attachment{Instance: n.Instance, Detach: detach, Remembered: true, Done: done, Evidence: "FloorPassed", Waits: "its time"}
		n.Detaching = true
		n.Annotations[v1alpha1.AnnotationNodeDetaching] = "true"
	}
}

// decide is what becomes of one node beside two others.
func decide(n Node, reasons ...Reason) NodeDecision {
	if reasons == nil {
		reasons = AllReasons
	}
	d := Plan(State{Now: now, Reasons: reasons, MinAttached: intstr.FromInt32(1), Nodes: []Node{n, node("y"), node("z")}})
	if len(d.Nodes) == 0 {
		return NodeDecision{Name: n.Name, Phase: Attached}
	}
	return d.Nodes[0]
}

func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		node Node
		want Reason
	}{
		"annotation":                    {node("a", annotated(v1alpha1.AnnotationNodeDetached, "")), Annotated},
		"annotation of any value":       {node("a", annotated(v1alpha1.AnnotationNodeDetached, "false")), Annotated},
		"cordon":                        {node("a", cordoned), Cordoned},
		"cluster autoscaler":            {node("a", taintedWith("ToBeDeletedByClusterAutoscaler")), ClusterAutoscaler},
		"Karpenter":                     {node("a", taintedWith("karpenter.sh/disrupted")), Karpenter},
		"spot interruption":             {node("a", taintedWith("aws-node-termination-handler/spot-itn")), TerminationHandler},
		"label":                         {node("a", labelled(v1alpha1.LabelExclude, "true")), Excluded},
		"label without a value":         {node("a", labelled(v1alpha1.LabelExclude, "")), Excluded},
		"our own label":                 {node("a", labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs)), ""},
		"a taint of somebody":           {node("a", taintedWith("dedicated")), ""},
		"a taint of Kubernetes":         {node("a", taintedWith(corev1.TaintNodeDiskPressure)), ""},
		"our own taint":                 {node("a", taintedWith(v1alpha1.TaintDetaching)), ""},
		"candidate of the autoscaler":   {node("a", taintedWith("DeletionCandidateOfClusterAutoscaler")), ""},
		"a cordoned control plane":      {node("a", cordoned, labelled("node-role.kubernetes.io/control-plane", "")), ""},
		"a control plane by its taint":  {node("a", cordoned, taintedWith("node-role.kubernetes.io/master")), ""},
		"nothing":                       {node("a"), ""},
		"annotation is told before all": {node("a", cordoned, annotated(v1alpha1.AnnotationNodeDetached, "")), Annotated},
	} {
		if got := decide(c.node); got.Reason != c.want || (got.Attachment == WriteDetach) != (c.want != "") {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
		if c.want == "" {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(AllReasons), func(r Reason) bool { return r == c.want || c.node.Cordoned })
		if got := decide(c.node, others...); got.Reason != "" {
			t.Errorf("%s, which was not selected: %+v", name, got)
		}
	}
}

func TestPhases(t *testing.T) {
	asked := annotated(v1alpha1.AnnotationNodeDetached, "")
	stamp := annotated(v1alpha1.AnnotationDetachmentTimestamp, "2026-01-02T03:00:00Z")
	notRemembered := func(n *Node) { n.Attachment.Remembered = false }
	other := func(n *Node) { n.Attachment.Instance = "i-before" }
	promoted := labelled(controlPlane, "")
	excluded := labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs)
	saidBy := func(evidence string) func(*Node) { return annotated(v1alpha1.AnnotationDetachmentEvidence, evidence) }
	hook := func(w Webhook) func(*Node) { return func(n *Node) { n.Webhooks = append(n.Webhooks, w) } }
	for name, c := range map[string]struct {
		node  Node
		phase Phase
		// patch is annotations, labels and taint, as text.
		patch string
		write Write
		waits string
	}{
		"asked for":      {node("a", asked), Detaching, "condition=true detaching=true", WriteDetach, "what it is attached to is being remembered"},
		"not remembered": {node("a", asked, attachment(true, false), notRemembered), Detaching, "", Keep, "its time"},
		"remembered":     {node("a", asked, attachment(true, false)), Detaching, "exclude=ingress-daemonset", Keep, "its time"},
		"out": {node("a", asked, attachment(true, true)), Detached,
			"detachment-evidence=FloorPassed detachment-timestamp=2026-01-02T03:04:05Z exclude=ingress-daemonset", Keep, ""},
		"out for long": {node("a", asked, attachment(true, true), stamp, annotated(v1alpha1.AnnotationDetachmentEvidence, "FloorPassed"),
			labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs)), Detached, "", Keep, ""},
		"excluded by somebody, too": {node("a", asked, attachment(true, false), labelled(v1alpha1.LabelExclude, "true")), Detaching, "", Keep, "its time"},
		"registered by somebody while out": {node("a", asked, attachment(true, false), stamp), Detaching,
			"detachment-timestamp- exclude=ingress-daemonset", Keep, "its time"},
		"out, and goes away": {node("a", cordoned, attachment(true, true), stamp), Detached, "detachment-evidence=FloorPassed exclude=ingress-daemonset taint=true", Keep, ""},
		"let go": {node("a", attachment(true, true), stamp, labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs), taintedWith(v1alpha1.TaintDetaching)),
			Attaching, "detachment-timestamp- exclude- taint=false", WriteAttach, "its targets return"},
		"returning": {node("a", attachment(false, false)), Attaching, "", Keep, "its time"},
		"returned":  {node("a", attachment(false, true)), Attaching, "attachment-timestamp=2026-01-02T03:04:05Z condition=false detaching=false", Delete, ""},
		"asked for while returning": {node("a", asked, attachment(false, false), annotated(v1alpha1.AnnotationAttachmentTimestamp, "2026-01-01T00:00:00Z")),
			Detaching, "attachment-timestamp-", WriteDetach, "what it is attached to is being remembered"},
		"marks without an Attachment": {node("a", stamp, annotated(v1alpha1.AnnotationNodeDetaching, "true")), Attached, "detaching=false detachment-timestamp-", Keep, ""},
		"attached again": {node("a", annotated(v1alpha1.AnnotationNodeDetaching, "false"), annotated(v1alpha1.AnnotationAttachmentTimestamp, "2026-01-01T00:00:00Z")),
			Attached, "", Keep, ""},
		"out, and of the control plane since": {node("a", cordoned, attachment(true, true), stamp, promoted, labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs), taintedWith(v1alpha1.TaintDetaching)),
			Attaching, "detachment-timestamp- exclude- taint=false", WriteAttach, "its targets return"},
		"leaving, and of the control plane since": {node("a", asked, attachment(true, false), promoted), Attaching, "", WriteAttach, "its targets return"},
		"returned, and of the control plane": {node("a", cordoned, attachment(false, true), promoted), Attaching,
			"attachment-timestamp=2026-01-02T03:04:05Z condition=false detaching=false", Delete, ""},
		"of the control plane, and excluded as such": {node("a", cordoned, promoted, labelled(v1alpha1.LabelExclude, "")), Attached, "", Keep, ""},
		"another machine": {node("a", attachment(true, true), other), Attaching, "", Delete, "it came back on another machine"},
		"another machine that a webhook may leave out": {node("a", attachment(true, true), other, hook(Webhook{Name: "edge", Detached: true})), Attaching, "", WriteAttach,
			"it came back on another machine"},
		"a webhook is left": {node("a", asked, attachment(true, true), hook(Webhook{Name: "edge", Waits: "edge drains"})), Detaching,
			"exclude=ingress-daemonset", Keep, "edge drains"},
		"out by what stands, of a webhook that was not asked since": {node("a", asked, attachment(true, true), stamp, saidBy("FloorPassed, webhook edge"), excluded, hook(Webhook{Name: "edge", Waits: "edge is down"})),
			Detached, "", Keep, ""},
		"a webhook answers otherwise": {node("a", asked, attachment(true, true), stamp, saidBy("FloorPassed, webhook edge"), excluded, hook(Webhook{Name: "edge", Undone: true, Waits: "edge drains"})),
			Detaching, "detachment-evidence- detachment-timestamp-", Keep, "edge drains"},
		"a webhook is new": {node("a", asked, attachment(true, true), stamp, saidBy("FloorPassed"), excluded, hook(Webhook{Name: "edge"})),
			Detaching, "detachment-evidence- detachment-timestamp-", Keep, "webhook edge has not answered yet"},
		"a webhook has answered": {node("a", asked, attachment(true, true), hook(Webhook{Name: "edge", Detached: true})), Detached,
			"detachment-evidence=FloorPassed, webhook edge detachment-timestamp=2026-01-02T03:04:05Z exclude=ingress-daemonset", Keep, ""},
		"a webhook is to attach it": {node("a", attachment(false, true), hook(Webhook{Name: "edge", Detached: true, Waits: "edge checks"})), Attaching, "", Keep, "edge checks"},
	} {
		got := decide(c.node)
		if got.Phase != c.phase || got.patched() != c.patch || got.Attachment != c.write || got.Waits != c.waits {
			t.Errorf("%s: %s %q %q %q, want %s %q %q %q", name, got.Phase, got.patched(), got.Attachment, got.Waits, c.phase, c.patch, c.write, c.waits)
		}
	}
}

// patched is the patch as text.
func (d NodeDecision) patched() string {
	if d.Patch == nil {
		return ""
	}
	var parts []string
	for _, changes := range []map[string]*string{d.Patch.Annotations, d.Patch.Labels} {
		for key, value := range changes {
			short := key[strings.LastIndex(key, "/")+1:]
			if key == v1alpha1.LabelExclude {
				short = "exclude"
			}
			if value == nil {
				parts = append(parts, short+"-")
			} else {
				parts = append(parts, short+"="+*value)
			}
		}
	}
	for name, value := range map[string]*bool{"taint": d.Patch.Taint, "condition": d.Patch.Detaching} {
		if value != nil {
			parts = append(parts, name+"="+map[bool]string{true: "true", false: "false"}[*value])
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func TestMinAttached(t *testing.T) {
	asked := annotated(v1alpha1.AnnotationNodeDetached, "")
	unready := func(n *Node) { n.Ready = false }
	for name, c := range map[string]struct {
		nodes []Node
		min   string
		begin string
	}{
		"one stays":                     {[]Node{node("a", asked), node("b", asked), node("c", asked)}, "1", "a b"},
		"two stay":                      {[]Node{node("a", asked), node("b", asked), node("c", asked)}, "2", "a"},
		"all may go":                    {[]Node{node("a", asked), node("b", asked)}, "0", "a b"},
		"one is out already":            {[]Node{node("a", asked, attachment(true, true)), node("b", asked), node("c")}, "1", "b"},
		"the last one":                  {[]Node{node("a", asked, attachment(true, true)), node("b", asked)}, "1", ""},
		"an unready one serves nobody":  {[]Node{node("a", asked), node("b", unready)}, "1", ""},
		"an unready one is not counted": {[]Node{node("a", asked, unready), node("b")}, "1", "a"},
		"half of three":                 {[]Node{node("a", asked), node("b", asked), node("c", asked)}, "50%", "a"},
		"half of four":                  {[]Node{node("a", asked), node("b", asked), node("c", asked), node("d")}, "50%", "a b"},
		"half of four, two out":         {[]Node{node("a", asked, attachment(true, true)), node("b", asked, attachment(true, true)), node("c", asked), node("d")}, "50%", ""},
		"half, unready ones count":      {[]Node{node("a", asked), node("b"), node("c"), node("d", unready), node("e", unready)}, "50%", ""},
		"half, no control plane counts": {[]Node{node("a", asked), node("b"), node("c", labelled("node-role.kubernetes.io/control-plane", ""))}, "50%", "a"},
		"half, one that is gone":        {[]Node{node("a", asked), node("b"), node("c", attachment(true, true), func(n *Node) { n.Exists = false })}, "50%", "a"},
		"what is no number":             {[]Node{node("a", asked), node("b", asked)}, "many", ""},
		"a control plane is none":       {[]Node{node("a", asked), node("b", labelled("node-role.kubernetes.io/control-plane", ""))}, "1", ""},
	} {
		var begun []string
		for _, d := range Plan(State{Now: now, Reasons: AllReasons, MinAttached: intstr.Parse(c.min), Nodes: c.nodes}).Nodes {
			if d.Attachment == WriteDetach {
				begun = append(begun, d.Name)
			}
		}
		if got := strings.Join(begun, " "); got != c.begin {
			t.Errorf("%s: %q, want %q", name, got, c.begin)
		}
	}
}

// TestAHeldNodeIsNotSaidToBeOut takes the marks off one that cannot be taken out now: somebody
// deleted its Attachment, or it was marked before others were taken out.
func TestAHeldNodeIsNotSaidToBeOut(t *testing.T) {
	asked, stamp := annotated(v1alpha1.AnnotationNodeDetached, ""), annotated(v1alpha1.AnnotationDetachmentTimestamp, "2026-01-02T03:00:00Z")
	marked := func(n *Node) { n.Detaching = true }
	held := node("b", asked, stamp, marked, annotated(v1alpha1.AnnotationNodeDetaching, "true"), labelled(v1alpha1.LabelExclude, v1alpha1.ExcludedByUs))
	d := Plan(State{Now: now, Reasons: AllReasons, MinAttached: intstr.FromInt32(1), Nodes: []Node{node("a", asked, attachment(true, true)), held}})
	got := d.Nodes[1]
	if got.Phase != Held || got.Attachment != Keep || got.patched() != "condition=false detaching=false detachment-timestamp- exclude-" {
		t.Errorf("%s %q, %s", got.Phase, got.Attachment, got.patched())
	}
}

func TestPodsStopInTheirOrder(t *testing.T) {
	pods := []Pod{
		{Name: "log", Priority: -1, Daemon: true},
		{Name: "app", Priority: 10},
		{Name: "app-2", Priority: 10, Terminating: true},
		{Name: "mesh", Priority: 0, Daemon: true},
		{Name: "agent", Priority: 100, Daemon: true, Tolerates: true},
		{Name: "done", Priority: 50, Ended: true},
	}
	stopped := func(change func([]Pod)) (stop, returning string) {
		list := slices.Clone(pods)
		change(list)
		d := decide(node("a", cordoned, attachment(true, true), func(n *Node) { n.Pods = list }))
		names := func(pods []Pod) string {
			var out []string
			for _, p := range pods {
				out = append(out, p.Name)
			}
			return strings.Join(out, " ")
		}
		return names(d.Stop), names(d.Returning)
	}
	for name, c := range map[string]struct {
		change func([]Pod)
		want   string
	}{
		"the highest first":                  {func([]Pod) {}, "app"},
		"the rest waits until they are gone": {func(p []Pod) { p[1].Terminating = true }, ""},
		"then the next":                      {func(p []Pod) { p[1].Ended, p[2].Ended = true, true }, "mesh"},
		"negative ones last":                 {func(p []Pod) { p[1].Ended, p[2].Ended, p[3].Ended = true, true, true }, "log"},
		"a budget refuses":                   {func(p []Pod) { p[1].RetryAt = now.Add(time.Second) }, ""},
		"it is time to try again":            {func(p []Pod) { p[1].RetryAt = now }, "app"},
	} {
		stop, returning := stopped(c.change)
		if stop != c.want || returning != "agent" {
			t.Errorf("%s: stops %q and leaves %q, want %q and agent", name, stop, returning, c.want)
		}
	}
	for name, n := range map[string]Node{
		"it is not out yet":           node("a", cordoned, attachment(true, false)),
		"somebody only asks for it":   node("a", annotated(v1alpha1.AnnotationNodeDetached, ""), attachment(true, true)),
		"somebody only excludes it":   node("a", labelled(v1alpha1.LabelExclude, "true"), attachment(true, true)),
		"the reason was not selected": node("a", annotated(v1alpha1.AnnotationNodeDetached, ""), taintedWith(karpenterTaint), attachment(true, true)),
	} {
		n.Pods = pods
		if d := decide(n, Annotated, Cordoned, Excluded); len(d.Stop)+len(d.Returning) > 0 {
			t.Errorf("%s, and pods are stopped: %+v", name, d)
		}
	}
}

// TestAWebhookThatHasNotAnswered is waited for, whether or not it says what it waits for.
func TestAWebhookThatHasNotAnswered(t *testing.T) {
	for _, waits := range []string{"", "webhook edge failed"} {
		asked := func(n *Node) { n.Webhooks = []Webhook{{Name: "edge", Waits: waits}} }
		if d := decide(node("a", cordoned, attachment(true, true), asked)); d.Phase != Detaching || d.Waits == "" {
			t.Errorf("%q: %+v", waits, d)
		}
		if d := decide(node("a", attachment(false, true), asked)); d.Phase != Attaching || d.Attachment == Delete || d.Waits == "" {
			t.Errorf("%q, back: %+v", waits, d)
		}
	}
}

// TestAGoneNodeIsRememberedForADay counts how long a node is gone by the clocks of those
// that lead meanwhile: what is on record, and what this one has seen itself.
func TestAGoneNodeIsRememberedForADay(t *testing.T) {
	for name, c := range map[string]struct {
		before, recorded, seen time.Duration
		deletes                bool
		records                time.Duration
		wakes                  time.Duration
	}{
		"a moment":                       {0, 0, time.Minute, false, 0, time.Hour},
		"an hour":                        {0, 0, time.Hour, false, time.Hour, time.Hour},
		"an hour that is on record":      {0, time.Hour, time.Hour, false, 0, time.Hour},
		"most of the day":                {0, 23 * time.Hour, 23*time.Hour + 30*time.Minute, false, 0, 30 * time.Minute},
		"a day":                          {0, 23 * time.Hour, 24 * time.Hour, true, 0, 0},
		"a day, most of it before":       {23 * time.Hour, 23 * time.Hour, time.Hour, true, 0, 0},
		"most of a day, begun by others": {20 * time.Hour, 20 * time.Hour, time.Hour, false, 21 * time.Hour, time.Hour},
	} {
		d := Plan(State{Now: now, Nodes: []Node{node("a", attachment(true, true), func(n *Node) {
			n.Exists, n.GoneSince, n.GoneBefore, n.GoneRecorded = false, now.Add(-c.seen), c.before, c.recorded
		})}})
		n := d.Nodes[0]
		if n.Phase != Gone || n.Patch != nil || (n.Attachment == Delete) != c.deletes || !c.deletes && !d.WakeAt.Equal(now.Add(c.wakes)) {
			t.Errorf("%s: %+v", name, d)
		}
		if (n.Gone != nil) != (c.records > 0) || n.Gone != nil && *n.Gone != c.records {
			t.Errorf("%s: records %v", name, n.Gone)
		}
	}
	back := Plan(State{Now: now, Nodes: []Node{node("a", attachment(true, true), func(n *Node) { n.GoneRecorded = time.Hour })}})
	if n := back.Nodes[0]; n.Gone == nil || *n.Gone != 0 {
		t.Errorf("one that is back: %+v", n)
	}
}

// TestANodeThatDoesNotSayWhatItIs changes nothing: a Node that registers again without its
// providerID may be the machine that was taken out.
func TestANodeThatDoesNotSayWhatItIs(t *testing.T) {
	for name, reason := range map[string]func(*Node){"with a reason": annotated(v1alpha1.AnnotationNodeDetached, ""), "without": func(*Node) {}} {
		n := node("a", attachment(true, true), reason, func(n *Node) { n.Attachment.Instance, n.Instance, n.Unnamed = "i-a", "", true })
		d := Plan(State{Now: now, Reasons: AllReasons, Nodes: []Node{n}})
		if got := d.Nodes[0]; got.Attachment != Keep || got.Phase != Detaching || got.Patch.Stamps() {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Nobody else is told to leave it out before it is remembered what it is attached to.
	unremembered := node("a", attachment(true, false), func(n *Node) {
		n.Attachment.Instance, n.Attachment.Remembered, n.Instance, n.Unnamed = "i-a", false, "", true
	})
	if got := Plan(State{Now: now, Reasons: AllReasons, Nodes: []Node{unremembered}}).Nodes[0]; got.Patch != nil {
		t.Errorf("%+v", got.Patch)
	}
	// It was taken out before it said what it is, and says so now.
	n := node("a", attachment(true, true), annotated(v1alpha1.AnnotationNodeDetached, ""), func(n *Node) { n.Attachment.Instance, n.Instance = "", "i-a" })
	d := Plan(State{Now: now, Reasons: AllReasons, Nodes: []Node{n}})
	if got := d.Nodes[0]; got.Attachment != WriteDetach || got.Patch.Stamps() {
		t.Errorf("%+v", got)
	}
}

func TestAsksWebhooksWhenItIsTime(t *testing.T) {
	n := node("a", annotated(v1alpha1.AnnotationNodeDetached, ""), attachment(true, false), func(n *Node) {
		n.Webhooks = []Webhook{{Name: "later", RetryAt: now.Add(time.Second)}, {Name: "done", Detached: true}, {Name: "now", RetryAt: now}, {Name: "first"}}
	})
	d := Plan(State{Now: now, Reasons: AllReasons, Nodes: []Node{n}})
	if diff := cmp.Diff([]string{"first", "now"}, d.Nodes[0].Ask); diff != "" || !d.WakeAt.Equal(now.Add(time.Second)) {
		t.Errorf("%s, wakes at %s", diff, d.WakeAt)
	}
}
