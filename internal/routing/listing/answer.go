package listing

import (
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
)

// Answer is which rule serves a request, and why.
type Answer struct {
	Request string `json:"request"`
	// Why says how the listener was found, or why there is none.
	Listener string `json:"listener,omitempty"`
	Why      string `json:"why"`
	// Rule is the one that serves it, nil where none does: Status is what is answered then.
	Rule   *Rule `json:"rule,omitempty"`
	Status int   `json:"status,omitempty"`
	// Others are rules that would have served it, or were considered, and More is how many are not listed.
	Others []Other `json:"others,omitempty"`
	More   int     `json:"more,omitempty"`
}

// Other is a rule that does not serve a request.
type Other struct {
	Rule Rule `json:"rule"`
	// Takes says whether it would serve the request if it were alone, Why what comes before it, or what of the
	// request is not as it asks for.
	Takes bool   `json:"takes"`
	Why   string `json:"why"`
}

// Explain says which rule serves a request. Its error says why nobody can ask for that.
func Explain(t *table.Table, asked table.Asked) (*Answer, error) {
	r, err := asked.Request()
	if err != nil {
		return nil, err
	}
	x := t.Explain(r)
	a := &Answer{Request: r.String(), Why: x.Why, Status: x.Answer.Outcome.Status(), More: x.More}
	if x.Answer.Listener != nil {
		a.Listener = x.Answer.Listener.Name
	}
	for _, c := range x.Considered {
		rule := ruleOf(t, hostOf(c), c.Route, c.Match)
		if x.Answer.Outcome == table.Found && c.Match == x.Answer.Match && c.Route == x.Answer.Route && a.Rule == nil {
			a.Rule = &rule
			continue
		}
		a.Others = append(a.Others, Other{rule, c.Takes, c.Why})
	}
	return a, nil
}

func hostOf(c table.Considered) string {
	if c.Hostname == "" {
		return "*"
	}
	return c.Hostname
}

// Hosts are those that routes name, each once, in no order.
func Hosts(t *table.Table) (out []string) {
	seen := map[string]bool{}
	for r := range t.Routes() {
		for _, host := range r.Hostnames {
			if !seen[host] {
				seen[host] = true
				out = append(out, host)
			}
		}
	}
	return out
}
