package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// policy is an identity-based policy. What is not understood of one is refused when it is
// read, so that no condition is passed over.
type policy struct{ statements []statement }

type statement struct {
	id         string
	deny       bool
	actions    []*grant
	resources  []string
	conditions []condition
}

// grant is an action of a statement, and whether it ever permitted anything.
type grant struct {
	action string
	used   atomic.Bool
}

type condition struct {
	operator string
	forAny   bool
	tag      string // of the resource
	null     bool   // with Null: the tag must be absent
	values   []string
}

// oneOrMore is a JSON string or list of strings.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err == nil {
		*o = list
		return nil
	}
	var one string
	err := json.Unmarshal(text, &one)
	*o = oneOrMore{one}
	return err
}

func parsePolicy(text json.RawMessage) (*policy, error) {
	if len(text) == 0 {
		return &policy{}, nil
	}
	var document struct {
		Version   string
		ID        string `json:"Id"`
		Statement json.RawMessage
	}
	if err := strictly(text, &document); err != nil {
		return nil, err
	}
	if document.Version != "2012-10-17" {
		return nil, fmt.Errorf("version %q: must be 2012-10-17", document.Version)
	}
	type written struct {
		Sid, Effect      string
		Action, Resource oneOrMore
		Condition        map[string]map[string]oneOrMore
	}
	var all []written
	if bytes.HasPrefix(bytes.TrimSpace(document.Statement), []byte("{")) {
		document.Statement = slices.Concat([]byte("["), document.Statement, []byte("]"))
	}
	if err := strictly(document.Statement, &all); err != nil {
		return nil, err
	}
	p := &policy{}
	for i, w := range all {
		s := statement{id: w.Sid, deny: w.Effect == "Deny", resources: w.Resource}
		if s.id == "" {
			s.id = fmt.Sprintf("#%d", i+1)
		}
		if w.Effect != "Allow" && w.Effect != "Deny" || len(w.Action) == 0 || len(w.Resource) == 0 {
			return nil, fmt.Errorf("statement %s: Effect, Action and Resource are needed", s.id)
		}
		for _, action := range w.Action {
			s.actions = append(s.actions, &grant{action: action})
		}
		var err error
		if s.conditions, err = parseConditions(w.Condition); err != nil {
			return nil, fmt.Errorf("statement %s: %w", s.id, err)
		}
		p.statements = append(p.statements, s)
	}
	return p, nil
}

func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

var tagKeys = []string{"aws:resourcetag/", "elasticloadbalancing:resourcetag/"}

func parseConditions(written map[string]map[string]oneOrMore) ([]condition, error) {
	var all []condition
	for _, name := range slices.Sorted(maps.Keys(written)) {
		operator, forAny := strings.CutPrefix(name, "ForAnyValue:")
		if operator != "StringEquals" && operator != "StringLike" && (operator != "Null" || forAny) {
			return nil, fmt.Errorf("condition operator %s is not understood", name)
		}
		for _, key := range slices.Sorted(maps.Keys(written[name])) {
			tag, values := "", written[name][key]
			for _, prefix := range tagKeys {
				if strings.HasPrefix(strings.ToLower(key), prefix) {
					tag = key[len(prefix):]
				}
			}
			if tag == "" {
				return nil, fmt.Errorf("condition key %s is not understood", key)
			}
			c := condition{operator: operator, forAny: forAny, tag: tag, values: values}
			if operator == "Null" {
				if !slices.Equal(values, oneOrMore{"true"}) && !slices.Equal(values, oneOrMore{"false"}) {
					return nil, errors.New("Null takes true or false")
				}
				c.null = values[0] == "true"
			}
			all = append(all, c)
		}
	}
	return all, nil
}

func (c condition) holds(tags map[string]string) bool {
	value, present := tags[c.tag]
	switch {
	case c.operator == "Null":
		return present != c.null
	case !present:
		return false
	case c.operator == "StringLike":
		return matchesAny(c.values, value)
	}
	return slices.Contains(c.values, value)
}

func (s statement) applies(resource string, tags map[string]string) bool {
	return matchesAny(s.resources, resource) && !slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.holds(tags) })
}

// Authorize reports whether a principal may do something with a resource that has these tags.
// The resource of an action without resources is *.
func (p Principal) Authorize(action, resource string, tags map[string]string) error {
	allowed := false
	for _, s := range p.policy.statements {
		if !s.applies(resource, tags) {
			continue
		}
		for _, g := range s.actions {
			if !matches(strings.ToLower(g.action), strings.ToLower(action)) {
				continue
			}
			if s.deny {
				return denied(p.ARN, action, resource, " with an explicit deny in an identity-based policy")
			}
			g.used.Store(true)
			allowed = true
		}
	}
	if !allowed {
		return denied(p.ARN, action, resource, " because no identity-based policy allows the "+action+" action")
	}
	return nil
}

func denied(who, action, resource, why string) *Error {
	return &Error{403, "AccessDenied", fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s%s", who, action, resource, why)}
}

// Grant is an action that a statement of a policy allows.
type Grant struct{ Owner, Statement, Action string }

// Unused are the grants that never permitted anything.
func (a *Access) Unused() []Grant {
	var unused []Grant
	for _, o := range a.owners {
		for _, s := range o.policy.statements {
			for _, g := range s.actions {
				if !s.deny && !g.used.Load() {
					unused = append(unused, Grant{o.arn, s.id, g.action})
				}
			}
		}
	}
	return unused
}

func matchesAny(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, text) })
}

// matches reports whether a text fits a pattern, in which * stands for any text and ? for one
// character.
func matches(pattern, text string) bool {
	for ; pattern != ""; pattern, text = pattern[1:], text[1:] {
		switch {
		case pattern[0] == '*':
			for i := range len(text) + 1 {
				if matches(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		case text == "" || pattern[0] != '?' && pattern[0] != text[0]:
			return false
		}
	}
	return text == ""
}
