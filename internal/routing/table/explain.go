package table

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// maxConsidered bounds what an Explanation lists.
const maxConsidered = 100

// Explanation is a request's Answer and why it is that.
type Explanation struct {
	Answer Answer
	// Why says how the listener was found, or why there is none.
	Why string
	// Considered are matches for the request's host at that listener, at most 100: that which won, those
	// that would take the request but come after it, and then others. More is how many are not listed.
	Considered []Considered
	More       int
}

// Considered is one match of a route.
type Considered struct {
	Route *Route
	Match *wire.Match
	// Hostname is that of the route, empty for any.
	Hostname string
	// Takes says whether the request is as it asks for. Why says what is not so, or why another came
	// before it, and is empty for the one that won.
	Takes bool
	Why   string
}

// Explain looks a request up as Lookup does, and says why.
func (t *Table) Explain(r *Request) Explanation {
	x := Explanation{Answer: t.Lookup(r)}
	switch l := x.Answer.Listener; {
	case x.Answer.Outcome == NoListener:
		x.Why = fmt.Sprintf("no listener %s is for host %q", where(r), r.Host)
	case x.Answer.Outcome == Misdirected:
		x.Why = fmt.Sprintf("the connection was made for %q, and host %q is of another listener, %s", r.ServerName, r.Host, l.Name)
	case x.Answer.Outcome == TooLong:
		x.Why = "its headers or its query are too long for the expressions of the routes for its host"
	default:
		x.Why = fmt.Sprintf("%s %s has %s, the most specific for host %q", l.Name, where(r), hostname(hostKey(l.Hostname)), r.Host)
		x.Considered = t.consider(x.Answer, r)
	}
	if more := len(x.Considered) - maxConsidered; more > 0 {
		x.Considered, x.More = x.Considered[:maxConsidered:maxConsidered], more
	}
	return x
}

func where(r *Request) string {
	with := "without"
	if r.TLS {
		with = "with"
	}
	if !r.Local.IsValid() {
		return fmt.Sprintf("at port %d %s TLS", r.Port, with)
	}
	return fmt.Sprintf("at %s port %d %s TLS", r.Local, r.Port, with)
}

func hostname(key string) string {
	switch {
	case key == "":
		return "any hostname"
	case key[0] == '.':
		return "hostname *" + key
	}
	return "hostname " + key
}

// weighed is a candidate for a request, under the key of one of its hostnames.
type weighed struct {
	*candidate
	key string
	// fits says whether the path is as it asks for, why what is not as it asks for.
	fits bool
	why  string
}

// consider weighs all candidates of the listener for the request's host.
func (t *Table) consider(answer Answer, r *Request) []Considered {
	hosts, _ := t.hosts.get(answer.Listener.hash, answer.Listener.Name)
	r.work = 0
	var all []weighed
	host := nameKey(r.Host)
	for key, more := host, true; more; key, more = wider(key) {
		if p := hosts.at(hashOf(key), key); p != nil {
			p.each(func(c *candidate) {
				won := c.route == answer.Route && c.match == answer.Match
				all = append(all, weighed{c, key, c.fits(r.Path, 0), c.refuses(r, severalLabels(host, key), won)})
			})
		}
	}
	slices.SortFunc(all, compareWeighed)
	var out []Considered
	for i, w := range all {
		takes := w.why == ""
		if takes && i > 0 {
			w.why = comesAfter(w, all[0])
		}
		out = append(out, Considered{Route: w.route, Match: w.match, Hostname: shown(w.key), Takes: takes, Why: w.why})
	}
	return out
}

func shown(key string) string {
	if key != "" && key[0] == '.' {
		return "*" + key
	}
	return key
}

// compareWeighed orders those that take the request by precedence, and after them those that do not,
// the ones first that fit its path.
func compareWeighed(a, b weighed) int {
	return cmp.Or(
		before(a.why == "", b.why == ""),
		before(a.fits, b.fits),
		compareHosts(a, b),
		comparePaths(a, b),
		compare(a.candidate, b.candidate))
}

func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// compareHosts puts an exact hostname first, and then longer ones.
func compareHosts(a, b weighed) int {
	exact := func(w weighed) bool { return w.key != "" && w.key[0] != '.' }
	return cmp.Or(before(exact(a), exact(b)), len(b.key)-len(a.key))
}

// comparePaths puts an exact path first, and then longer prefixes.
func comparePaths(a, b weighed) int {
	exact := func(w weighed) bool { return w.match.PathType == wire.Exact }
	return cmp.Or(before(exact(a), exact(b)), len(prefixOf(b.match))-len(prefixOf(a.match)))
}

// comesAfter says why the one comes after the other, where both take the request.
func comesAfter(w, winner weighed) string {
	switch {
	case compareHosts(w, winner) != 0:
		return "the other has a more specific hostname"
	case comparePaths(w, winner) != 0:
		return "the other has an exact or longer path"
	}
	for _, criterion := range precedence {
		if criterion.compare(w.candidate, winner.candidate) > 0 {
			return criterion.loses
		}
	}
	return ""
}

// refuses says what of the request is not as the candidate asks for, nothing where takes is true and
// the path fits. Won says that its conditions hold.
func (c *candidate) refuses(r *Request, several, won bool) string {
	switch {
	case !c.fits(r.Path, 0):
		return "path " + r.Path + " is not as it asks for"
	case several && c.route.OneLabel:
		return "its * stands for one label"
	case c.match.Method != "" && c.match.Method != r.Method:
		return "method is " + r.Method + ", not " + c.match.Method
	case won:
		return ""
	}
	for i := range c.headers {
		if !c.headers[i].holds(r, r.Header) {
			return r.not("header", c.headers[i].name)
		}
	}
	for i := range c.query {
		if !c.query[i].holds(r, r.Query) {
			return r.not("parameter", c.query[i].name)
		}
	}
	return ""
}

// not says that a header or a parameter is not as it is asked for, or that it was not tried.
func (r *Request) not(what, name string) string {
	if r.work > maxWork {
		return fmt.Sprintf("%s %q was not tried: it takes too long with the others", what, name)
	}
	return fmt.Sprintf("%s %q is missing or not as it asks for", what, name)
}
