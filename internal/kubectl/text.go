package kubectl

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/kstatus"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// style is how text is shown.
type style struct {
	// terminal says whether colours and lines can be shown.
	terminal bool
}

func styleOf(w io.Writer) style {
	f, ok := w.(*os.File)
	return style{terminal: ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// sizeOf gives the size of a terminal, and is nil where there is none.
func sizeOf(w io.Writer) func() (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || columns < 1 || rows < 1 {
			return 80, 24
		}
		return columns, rows
	}
}

// paint colours text by what it says of a node or a condition.
func (s style) paint(colour, text string) string {
	if !s.terminal || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

const (
	green  = "32"
	yellow = "33"
	red    = "31"
)

var colours = map[v1alpha1.NodeState]string{
	v1alpha1.NodeServing: green, v1alpha1.NodeDetaching: yellow, v1alpha1.NodeUpdating: yellow, v1alpha1.NodeAttaching: yellow,
	v1alpha1.NodeRemoving: yellow, v1alpha1.NodeDrained: yellow, v1alpha1.NodeDetached: yellow, v1alpha1.NodeDegraded: red, v1alpha1.NodeUnavailable: red,
}

// tree is the rollout as kubectl ids status shows it; remaining is how long it
// would still take, empty where that is not known, reasons why pods are not ready, by node.
func tree(set *v1alpha1.IngressDaemonSet, remaining string, reasons map[string][]string, now time.Time, look style, wide bool) string {
	s := set.Status
	var b strings.Builder
	fmt.Fprintf(&b, "IngressDaemonSet %s/%s\n", set.Namespace, set.Name)
	facts := [][2]string{
		{"strategy", strategyInWords(set.Spec.Strategy())},
		{"revision", revisionsInWords(s)},
		{"nodes", fmt.Sprintf("%d desired, %d serving, %d degraded, %d unavailable", s.DesiredNodes, s.ServingNodes, s.DegradedNodes, s.UnavailableNodes)},
		{"updated", look.bar(s.UpdatedNodes, s.DesiredNodes)},
	}
	if remaining != "" {
		facts = append(facts, [2]string{"remaining", remaining})
	}
	if set.Spec.Paused {
		facts = append(facts, [2]string{"paused", "no further node begins until rollout resume"})
	}
	if wide {
		facts = append(facts, [2]string{"images", strings.Join(images(&set.Spec.Template.Spec), ", ")})
	}
	if s.Analysis != nil {
		facts = append(facts, [2]string{"analysis", analysisInWords(s.Analysis)})
	}
	if s.Rejected != nil {
		facts = append(facts, [2]string{"rejected", fmt.Sprintf("%s: %s", s.Rejected.Revision, s.Rejected.Message)})
	}
	if set.Status.ObservedGeneration != set.Generation {
		facts = append(facts, [2]string{"waits", "the controller has not seen the present spec yet"})
	}
	for _, f := range facts {
		fmt.Fprintf(&b, "%s %-10s %s\n", look.branch(false), f[0], printable(f[1]))
	}
	nodes := nodeRows(set, reasons, now, look)
	fmt.Fprintf(&b, "%s %s\n", look.branch(len(nodes) == 0), "conditions")
	b.WriteString(indented(conditionRows(s.Conditions, now, look), look, len(nodes) == 0))
	if len(nodes) > 0 {
		fmt.Fprintf(&b, "%s %s\n", look.branch(true), "nodes that do not serve, those of the wave marked *")
		b.WriteString(indented(nodes, look, true))
	}
	return b.String()
}

// analysisInWords is where the analysis of the last wave stands, and what each
// check counted.
func analysisInWords(a *v1alpha1.AnalysisStatus) string {
	phases := map[v1alpha1.AnalysisPhase]string{
		v1alpha1.AnalysisOfWave: "begins when the wave serves", v1alpha1.AnalysisMeasuring: "the wave is measured",
		v1alpha1.AnalysisPassed: "the last wave passed", v1alpha1.AnalysisFailed: "the last wave failed",
	}
	parts := []string{phases[a.Phase]}
	for _, c := range a.Checks {
		part := fmt.Sprintf("%s passed %d, failed %d", c.Name, c.Passed, c.Failed)
		if c.Message != "" {
			part += " (" + c.Message + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func (s style) branch(last bool) string {
	switch {
	case !s.terminal:
		return " "
	case last:
		return "└─"
	}
	return "├─"
}

// indented puts rows below a branch.
func indented(rows [][]string, look style, last bool) string {
	indent := "     "
	if look.terminal && !last {
		indent = "│    "
	}
	return columns(rows, indent)
}

// bar is a share, drawn where it can be.
func (s style) bar(part, whole int32) string {
	text := fmt.Sprintf("%d of %d", part, whole)
	if !s.terminal || whole == 0 {
		return text
	}
	const width = 20
	// A status may count nodes that were updated before they left the node set.
	full := min(width, int(part)*width/int(whole))
	return s.paint(green, strings.Repeat("█", full)) + strings.Repeat("░", width-full) + " " + text
}

func strategyInWords(s v1alpha1.Strategy) string {
	if !s.Detaching {
		return fmt.Sprintf("at most %s of the nodes degraded at a time, none detached", s.MaxNodes.String())
	}
	how := "by failing health checks"
	if s.AnnotateNode != nil {
		how += " and annotating the Node"
	}
	text := fmt.Sprintf("at most %s of the nodes out at a time, %s; at least %s serving", s.MaxNodes.String(), how, s.MinServingNodes.String())
	if p := partitionOf(s); p != "" {
		text += ", " + p + " stay as they are"
	}
	return text
}

func revisionsInWords(s v1alpha1.IngressDaemonSetStatus) string {
	switch {
	case s.UpdateRevision == "":
		return "none yet"
	case s.CurrentRevision == "" || s.CurrentRevision == s.UpdateRevision:
		return s.UpdateRevision
	}
	return s.CurrentRevision + " -> " + s.UpdateRevision
}

// conditionRows are the conditions, but for those that say the same to tools in fewer words.
func conditionRows(conditions []metav1.Condition, now time.Time, look style) [][]string {
	bad := map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionFalse, v1alpha1.ConditionProgressing: metav1.ConditionFalse,
		v1alpha1.ConditionDegraded: metav1.ConditionTrue, v1alpha1.ConditionBlocked: metav1.ConditionTrue,
		v1alpha1.ConditionWarning: metav1.ConditionTrue,
	}
	var rows [][]string
	for _, c := range conditions {
		if slices.Contains(kstatus.Conditions, c.Type) {
			continue
		}
		colour := green
		if c.Status == bad[c.Type] {
			colour = red
		}
		rows = append(rows, []string{look.paint(colour, c.Type+"="+string(c.Status)), c.Reason, age(&c.LastTransitionTime, now), c.Message})
	}
	return rows
}

// nodeRows are the nodes that do not serve, each with why, and below it why its pods are not ready
// where that says more.
func nodeRows(set *v1alpha1.IngressDaemonSet, reasons map[string][]string, now time.Time, look style) [][]string {
	var rows [][]string
	for _, n := range set.Status.Nodes {
		mark := " "
		if slices.Contains(set.Status.Wave, n.Name) {
			mark = "*"
		}
		rows = append(rows, []string{mark + " " + n.Name, look.paint(cmp.Or(colours[n.State], plain), string(n.State)), age(n.Since, now), n.Reason})
		for _, reason := range reasons[n.Name] {
			if _, why, _ := strings.Cut(reason, ": "); !strings.Contains(n.Reason, why) {
				rows = append(rows, []string{"", look.paint(green, ""), "", reason})
			}
		}
	}
	return rows
}

func age(t *metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// columns aligns rows, each after the indent.
func columns(rows [][]string, indent string) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(indent+line, " \n") + "\n")
	}
	return out.String()
}

// printable is a text in one line that steers no terminal but by our colours: messages come from
// whoever runs pods, and a terminal obeys what it is sent.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\x1b' && ourColours.MatchString(text):
			size = strings.IndexByte(text, 'm') + 1
			b.WriteString(text[:size])
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(utf8.RuneError)
		}
		text = text[size:]
	}
	return b.String()
}

// ourColours begins with what paint writes.
var ourColours = regexp.MustCompile("^\x1b\\[(?:0|" + strings.Join([]string{plain, green, yellow, red}, "|") + ")m")

func images(spec *corev1.PodSpec) []string {
	var out []string
	for _, c := range spec.Containers {
		out = append(out, c.Image)
	}
	return out
}

// progress is a line about a rollout, and whether it is over; an error where it
// will not go on by itself.
func progress(set *v1alpha1.IngressDaemonSet) (line string, done bool, err error) {
	s := set.Status
	c := apimeta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || c.ObservedGeneration != set.Generation || s.ObservedGeneration != set.Generation {
		return "Waiting for the controller to see the present spec...", false, nil
	}
	blocked := ""
	if b := apimeta.FindStatusCondition(s.Conditions, v1alpha1.ConditionBlocked); b != nil && b.Status == metav1.ConditionTrue {
		blocked = ", blocked: " + b.Message
	}
	switch c.Reason {
	case v1alpha1.ReasonComplete:
		return fmt.Sprintf("ingressdaemonset %q successfully rolled out: %d of %d nodes serve the present template%s", set.Name, s.UpdatedNodes, s.DesiredNodes, blocked), true, nil
	case v1alpha1.ReasonRollingBack:
		return fmt.Sprintf("Rolling back ingressdaemonset %q: %s...", set.Name, c.Message), false, nil
	}
	// Also for a reason that only a newer controller knows.
	if c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonPaused {
		return "", true, fmt.Errorf("ingressdaemonset %q: %s: %s", set.Name, c.Reason, printable(c.Message))
	}
	line = fmt.Sprintf("Waiting for ingressdaemonset %q: %d of %d nodes are updated", set.Name, s.UpdatedNodes, s.DesiredNodes)
	if blocked != "" {
		return line + blocked, false, nil
	}
	if c.Reason == v1alpha1.ReasonPaused {
		return line + ", paused", false, nil
	}
	if c.Reason == v1alpha1.ReasonAnalyzing {
		return line + ", the last wave is analysed...", false, nil
	}
	if len(s.Wave) > 0 {
		line += ", under way: " + strings.Join(s.Wave[:min(3, len(s.Wave))], ", ")
		if more := len(s.Wave) - 3; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
	}
	if len(s.Wave) == 0 && len(s.Nodes) > 0 {
		line += fmt.Sprintf(", %s is %s: %s", s.Nodes[0].Name, s.Nodes[0].State, s.Nodes[0].Reason)
	}
	return line + "...", false, nil
}

// plain is the terminal's own colour, written as the others are, so that columns stay aligned.
const plain = "39"
