package kubectl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/listing"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	"k8s.io/apimachinery/pkg/types"
)

// routesOut is what routes prints where it lists.
type routesOut struct {
	Rules        []ruleOut        `json:"rules"`
	Certificates []certificateOut `json:"certificates,omitempty"`
	Problems     []problemOut     `json:"problems,omitempty"`
}

// ruleOut is a rule that the proxies of an IngressDaemonSet serve.
type ruleOut struct {
	IngressDaemonSet string `json:"ingressDaemonSet"`
	listing.Rule
}

// certificateOut is a Secret of which they present the certificate.
type certificateOut struct {
	IngressDaemonSet string `json:"ingressDaemonSet"`
	Secret           string `json:"secret"`
}

// problemOut is what is wrong with an object.
type problemOut struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// answersOut is what routes prints of a request.
type answersOut struct {
	Answers  []answerOut  `json:"answers"`
	Problems []problemOut `json:"problems,omitempty"`
}

// answerOut is what the proxies of an IngressDaemonSet do with it.
type answerOut struct {
	IngressDaemonSet string `json:"ingressDaemonSet"`
	*listing.Answer
}

// list is what objects of a namespace come to, empty for all.
func (r routed) list(namespace string) routesOut {
	out := routesOut{Rules: []ruleOut{}}
	own := func(of string) bool { return namespace == "" || of == namespace }
	for _, set := range r.sets() {
		rules, _ := listing.Rules(r.tables[set], listing.Wanted{Object: func(o wire.Object) bool { return own(o.Namespace) }})
		for _, rule := range rules {
			out.Rules = append(out.Rules, ruleOut{set.String(), rule})
		}
		for _, name := range secretsOf(r.tables[set]) {
			if of, _, _ := strings.Cut(name, "/"); own(of) {
				out.Certificates = append(out.Certificates, certificateOut{set.String(), name})
			}
		}
	}
	for _, e := range r.problems {
		if own(e.Object.Namespace) {
			out.Problems = append(out.Problems, problemOf(e))
		}
	}
	return out
}

// secretsOf are those that listeners name, each once.
func secretsOf(t *table.Table) (out []string) {
	for l := range t.Listeners() {
		for _, name := range l.Certificates {
			if name != "" {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func problemOf(e routing.Event) problemOut { return problemOut{e.Object.String(), e.Reason, e.Message} }

// answer is which rule of each IngressDaemonSet serves a request, and what is wrong with objects that it names.
func (r routed) answer(asked table.Asked) (answersOut, error) {
	out := answersOut{Answers: []answerOut{}}
	named := map[string]bool{}
	for _, set := range r.sets() {
		answers, err := explain(r.tables[set], asked)
		if err != nil {
			return out, err
		}
		for _, a := range answers {
			out.Answers = append(out.Answers, answerOut{set.String(), a})
			if a.Listener == "" {
				r.name(set, asked, named)
			}
			if a.Rule != nil {
				named[a.Rule.Object.String()] = true
			}
			for _, other := range a.Others {
				named[other.Rule.Object.String()] = true
			}
		}
	}
	for _, e := range r.problems {
		if named[e.Object.String()] || mentions(e.Message, named) {
			out.Problems = append(out.Problems, problemOf(e))
		}
	}
	return out, nil
}

// name notes the objects that have the host of a request at which nobody listens: what is wrong with them may be why.
func (r routed) name(set types.NamespacedName, asked table.Asked, named map[string]bool) {
	request, err := asked.Request()
	if err != nil {
		return
	}
	for route := range r.tables[set].Routes() {
		if slices.Contains(route.Hostnames, request.Host) {
			named[routing.Ref{Kind: route.Object.Kind, Namespace: route.Object.Namespace, Name: route.Object.Name}.String()] = true
		}
	}
}

// explain asks at each address at which there is a listener of its own, and at any other: what is answered there is
// left out where none of these knows the host and another does.
func explain(t *table.Table, asked table.Asked) (out []*listing.Answer, err error) {
	addresses := map[string]bool{"": true}
	for l := range t.Listeners() {
		addresses[l.Address] = true
	}
	var elsewhere []*listing.Answer
	for _, address := range slices.Sorted(maps.Keys(addresses)) {
		asked.Local = address
		a, err := listing.Explain(t, asked)
		if err != nil {
			return nil, err
		}
		if a.Listener != "" {
			out = append(out, a)
		} else {
			elsewhere = append(elsewhere, a)
		}
	}
	if len(out) == 0 {
		out = elsewhere[:1]
	}
	return out, nil
}

// mentions reports whether a message names one of the objects, as that of who lost to it does.
func mentions(message string, objects map[string]bool) bool {
	for object := range objects {
		if _, rest, found := strings.Cut(message, object); found && (rest == "" || !strings.ContainsRune("-.abcdefghijklmnopqrstuvwxyz0123456789", rune(rest[0]))) {
			return true
		}
	}
	return false
}

// served reports whether any rule serves the request.
func (a answersOut) served() bool {
	return slices.ContainsFunc(a.Answers, func(one answerOut) bool { return one.Rule != nil })
}

// text is the table of rules: a line for each backend, and below it what is wrong.
func (out routesOut) text() string {
	rows := [][]string{{"INGRESSDAEMONSET", "HOST", "PATH", "OBJECT", "BACKEND", "SHARE", "READY", "PROBLEM"}}
	for _, rule := range out.Rules {
		head := []string{rule.IngressDaemonSet, rule.Host, rule.Path + " " + rule.PathType, rule.Object.String()}
		rows = append(rows, withShares(head, rule.Rule)...)
	}
	var secrets [][]string
	for _, c := range out.Certificates {
		secrets = append(secrets, []string{c.IngressDaemonSet, "Secret " + c.Secret})
	}
	text := ""
	if len(out.Rules) > 0 {
		text = columns(rows, "")
	}
	return text + section("Certificates, which are not read:", secrets) + problemText(out.Problems)
}

// withShares are the rows of a rule: one for each backend, of which the first has the head.
func withShares(head []string, rule listing.Rule) (rows [][]string) {
	for _, s := range rule.Backends {
		row := []string{s.Backend, fmt.Sprintf("%.4g%%", s.Percent), fmt.Sprint(s.Ready), ""}
		switch {
		case s.Backend == "":
			row[0], row[2], row[3] = "none", "", fmt.Sprintf("answers %d", s.Status)
		case s.Status != 0:
			row[3] = fmt.Sprintf("answers %d, it has no endpoints", s.Status)
		case s.Ready == 0 && s.Unknown > 0:
			row[3] = fmt.Sprintf("only %d may serve, of whose nodes nothing is heard", s.Unknown)
			if s.Terminating > 0 {
				row[3] += fmt.Sprintf("; terminating: %d", s.Terminating)
			}
		case s.Ready == 0:
			row[3] = fmt.Sprintf("only %d that terminate serve", s.Terminating)
		}
		rows = append(rows, append(slices.Clone(head), row...))
		head = make([]string, len(head))
	}
	if len(rows) == 0 {
		rows = [][]string{append(slices.Clone(head), "none", "", "", "")}
	}
	if rule.Fallback != 0 {
		rows[0][len(rows[0])-1] = fmt.Sprintf("answers %d, no backend has a weight", rule.Fallback)
	}
	return rows
}

// text says which rule serves the request at each IngressDaemonSet, and what comes after it.
func (a answersOut) text() string {
	var b strings.Builder
	if len(a.Answers) == 0 {
		return "No class names an IngressDaemonSet: nothing serves any request.\n"
	}
	fmt.Fprintf(&b, "%s\n", printable(a.Answers[0].Request))
	for _, one := range a.Answers {
		fmt.Fprintf(&b, "\nAt the proxies of IngressDaemonSet %s:\n", printable(one.IngressDaemonSet))
		fmt.Fprintf(&b, "%s.\n", printable(one.Why))
		if one.Rule == nil {
			fmt.Fprintf(&b, "No rule serves it: it is answered %d.\n", one.Status)
		} else {
			fmt.Fprintf(&b, "Rule %d of %s serves it:\n", one.Rule.Index, printable(one.Rule.Object.String()))
			rows := [][]string{{"HOST", "PATH", "BACKEND", "SHARE", "READY", "PROBLEM"}}
			b.WriteString(columns(append(rows, withShares([]string{one.Rule.Host, one.Rule.Path + " " + one.Rule.PathType}, *one.Rule)...), "  "))
		}
		var others [][]string
		for _, other := range one.Others {
			others = append(others, []string{other.Rule.Host, other.Rule.Path + " " + other.Rule.PathType, other.Rule.Object.String(), other.Why})
		}
		b.WriteString(section("What else was considered, and why it does not serve it:", others))
		if one.More > 0 {
			fmt.Fprintf(&b, "  and %d more\n", one.More)
		}
	}
	return b.String() + problemText(a.Problems)
}

func problemText(all []problemOut) string {
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.Object, p.Reason, p.Message})
	}
	return section("Problems:", rows)
}

// section has a heading and rows, nothing where there are none.
func section(heading string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	return "\n" + heading + "\n" + columns(rows, "  ")
}
