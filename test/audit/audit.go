// Package audit reads an API server's audit log: what an account did, what it
// was refused, and which of its permissions it never used.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Event is one request.
type Event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	RequestURI string `json:"requestURI"`
	ObjectRef  Object `json:"objectRef"`
	Response   struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
	Stage       string            `json:"stage"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
}

// Object is what a request was about.
type Object struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// String is the resource, with the subresource if there is one: pods/eviction.
func (o Object) String() string {
	if o.Subresource != "" {
		return o.Resource + "/" + o.Subresource
	}
	return o.Resource
}

// By is whose requests are looked for.
type By func(username string) bool

// Account is an account of that name.
func Account(name string) By { return func(username string) bool { return username == name } }

// Read gives the requests of accounts to resources, in the order in which they
// were answered. A watch counts when it starts.
func Read(file string, by By) ([]Event, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []Event
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if !bytes.HasSuffix(data, []byte("\n")) && bytes.HasSuffix(data, lines.Bytes()) {
				break // It is being written.
			}
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		watchEnds := e.Verb == "watch" && e.Stage != "ResponseStarted"
		if by(e.User.Username) && e.ObjectRef.Resource != "" && !watchEnds {
			out = append(out, e)
		}
	}
	return out, lines.Err()
}

// Writes are the requests that changed something.
func Writes(events []Event) []Event {
	return slices.DeleteFunc(slices.Clone(events), func(e Event) bool {
		return slices.Contains([]string{"get", "list", "watch"}, e.Verb) || e.Response.Code >= 300
	})
}

// Refused names what accounts were never permitted to do, each once. What is granted
// is refused all the same for a moment after an API server has started, before it
// has read the roles; a grant that is missing is refused every time.
func Refused(events []Event) []string {
	granted := map[grant]bool{}
	for _, e := range events {
		if e.forbidden() {
			continue
		}
		granted[e.grant()] = true
		if e.lists() {
			granted[e.grantOf("list")] = true
		}
	}
	return names(events, func(e Event) []string {
		if e.forbidden() && !granted[e.grant()] {
			return []string{e.permission(e.Verb)}
		}
		return nil
	})
}

// RefusedOnce names what was refused for a moment, and when.
func RefusedOnce(events []Event) []string {
	refused := Refused(events)
	return names(events, func(e Event) []string {
		if e.forbidden() && !slices.Contains(refused, e.permission(e.Verb)) {
			return []string{e.Received.Format(time.RFC3339Nano) + " " + e.permission(e.Verb)}
		}
		return nil
	})
}

// forbidden reports whether authorization refused. Admission refuses with the same
// status, such as in a namespace that is going.
func (e Event) forbidden() bool { return e.Annotations["authorization.k8s.io/decision"] == "forbid" }

// grant is what a role grants to an account in a namespace.
type grant struct{ user, namespace, permission string }

func (e Event) grant() grant { return e.grantOf(e.Verb) }

func (e Event) grantOf(verb string) grant {
	return grant{e.User.Username, e.ObjectRef.Namespace, e.permission(verb)}
}

// lists reports whether it is a watch that begins with a list: whoever asks so lists only where that is
// refused, or an API server is too old for it.
func (e Event) lists() bool {
	return e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true")
}

// Unused names the permissions that the rules grant and no request needed.
// Permissions that no audit log shows, such as bind, are not among them.
func Unused(rules []rbacv1.PolicyRule, events []Event) []string {
	used := names(events, func(e Event) []string {
		verbs := []string{e.permission(e.Verb)}
		switch {
		case e.Verb == "patch" && e.Response.Code == 201:
			// Server-side apply of what did not exist.
			verbs = append(verbs, e.permission("create"))
		case e.lists():
			verbs = append(verbs, e.permission("list"))
		}
		return verbs
	})
	var out []string
	for _, rule := range rules {
		for _, p := range permissions(rule) {
			if !slices.Contains(used, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (e Event) permission(verb string) string {
	return verb + " " + strings.TrimPrefix(e.ObjectRef.APIGroup+"/"+e.ObjectRef.String(), "/")
}

func permissions(rule rbacv1.PolicyRule) []string {
	var out []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if verb != "bind" && verb != "escalate" && verb != "impersonate" {
					out = append(out, verb+" "+strings.TrimPrefix(group+"/"+resource, "/"))
				}
			}
		}
	}
	return out
}

// Check compares what an account did with what it is granted: it is an error that names what it was
// refused, or what its rules grant and it never did, but for some. Nothing is said of the latter where it
// did not do the whole, and the rules are not asked for.
func Check(who string, events []Event, whole bool, rules func() ([]rbacv1.PolicyRule, error), but ...string) error {
	if refused := Refused(events); len(refused) > 0 {
		return fmt.Errorf("%s may not:\n%s", who, strings.Join(refused, "\n"))
	}
	if !whole {
		return nil
	}
	granted, err := rules()
	if err != nil {
		return fmt.Errorf("what %s may: %w", who, err)
	}
	unused := slices.DeleteFunc(Unused(granted, events), func(p string) bool { return slices.Contains(but, p) })
	if len(unused) > 0 {
		return fmt.Errorf("%s may, but never did:\n%s", who, strings.Join(unused, "\n"))
	}
	return nil
}

// names gathers what of gives for each event, sorted, each once.
func names(events []Event, of func(Event) []string) []string {
	var out []string
	for _, e := range events {
		out = append(out, of(e)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
