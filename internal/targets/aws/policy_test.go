package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mumoshu/ingress-daemonset-controller/internal/targets"
)

// TestActionsAreThoseSent makes every request that the client can make.
func TestActionsAreThoseSent(t *testing.T) {
	s := newServer(t)
	everything(s)
	var calls []Call
	c := client(t, s, Options{Before: func(_ context.Context, call Call) error {
		calls = append(calls, call)
		return nil
	}})
	ctx := t.Context()
	_, groups := complete(t, c)
	_, named := c.Named(ctx, []targets.GroupName{{ID: "arn:1"}, {ID: "x"}, {Name: "web"}})
	for _, err := range []error{groups, named} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, g := range []targets.Group{instanceGroup, classicGroup} {
		one := []targets.Target{at("i-1", 80)}
		list(t, c, g)
		list(t, c, g, one...)
		if err := c.Register(ctx, g, []targets.Registration{{Target: one[0]}}); err != nil {
			t.Error(err)
		}
		if err := c.Deregister(ctx, g, one); err != nil {
			t.Error(err)
		}
	}

	listed := map[Action]bool{}
	for _, a := range Actions() {
		listed[a] = false
	}
	requests := s.all()
	if len(requests) != len(calls) {
		t.Fatalf("%d requests, and Before was called %d times", len(requests), len(calls))
	}
	for i, r := range requests {
		at := slices.IndexFunc(Actions(), func(a Action) bool { return a.Version == r.version && a.Name == r.action })
		if at < 0 {
			t.Errorf("%s %s is sent, and not in Actions", r.version, r.action)
			continue
		}
		a := Actions()[at]
		listed[a] = true
		about := r.form.Get("TargetGroupArn") + r.form.Get("LoadBalancerName")
		if want := (Call{Class: a.Class, Action: r.action, Group: about}); calls[i] != want {
			t.Errorf("Before was told of %+v, sent was %+v", calls[i], want)
		}
		if want := classOf(a.Name); a.Class != want {
			t.Errorf("%s is of class %s, want %s", a.Name, a.Class, want)
		}
	}
	for a, sent := range listed {
		if !sent {
			t.Errorf("%s %s is in Actions, and no method sends it", a.Version, a.Name)
		}
	}
}

func classOf(name string) Class {
	switch {
	case strings.HasPrefix(name, "Register"):
		return Register
	case strings.HasPrefix(name, "Deregister"):
		return Deregister
	}
	return Read
}

type policy struct {
	Version   string
	Statement []struct {
		Sid, Effect string
		Action      oneOrMore
		Resource    oneOrMore
		Principal   map[string]string
		Condition   map[string]map[string]string
	}
}

// oneOrMore is a list that may be written as its only element.
type oneOrMore []string

func (l *oneOrMore) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		*l = []string{""}
		return json.Unmarshal(text, &(*l)[0])
	}
	return json.Unmarshal(text, (*[]string)(l))
}

func readPolicy(t *testing.T, name string) policy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "aws", name))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var p policy
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

// TestPolicies grants what can be sent, once, and nothing else; and writes only to
// resources of the kind that they are about.
func TestPolicies(t *testing.T) {
	var needed []string
	for _, a := range Actions() {
		needed = append(needed, a.Permission())
	}
	slices.Sort(needed)
	needed = slices.Compact(needed)
	for name, conditions := range map[string]map[string]map[string]string{
		"policy.json":        nil,
		"policy-by-tag.json": {"StringEquals": {"aws:ResourceTag/ingressdaemonsets.mumoshu.github.io/managed": "true"}},
	} {
		var granted []string
		for _, s := range readPolicy(t, name).Statement {
			granted = append(granted, s.Action...)
			for _, permission := range s.Action {
				resource, condition := "arn:aws:elasticloadbalancing:*:*:targetgroup/*", conditions
				switch {
				case strings.HasPrefix(permission, "elasticloadbalancing:Describe"):
					resource, condition = "*", nil
				case strings.Contains(permission, "Instances"):
					resource = "arn:aws:elasticloadbalancing:*:*:loadbalancer/*"
				}
				if s.Effect != "Allow" || !cmp.Equal(s.Resource, oneOrMore{resource}) || !cmp.Equal(s.Condition, condition) {
					t.Errorf("%s: %s %s on %v if %v, want it on %s if %v", name, s.Effect, permission, s.Resource, s.Condition, resource, condition)
				}
			}
		}
		slices.Sort(granted)
		if diff := cmp.Diff(needed, granted); diff != "" {
			t.Errorf("%s: needed and granted differ: %s", name, diff)
		}
	}
	roles := readPolicy(t, "assume-role.json").Statement
	if len(roles) != 1 || !cmp.Equal(roles[0].Action, oneOrMore{AssumeRole, TagSession}) || !strings.HasPrefix(roles[0].Resource[0], "arn:aws:iam::") {
		t.Errorf("assume-role.json: %+v", roles)
	}
	for _, name := range []string{"trust-pod-identity.json", "trust-assume-role.json"} {
		if trust := readPolicy(t, name).Statement; len(trust) != 1 || !cmp.Equal(trust[0].Action, oneOrMore{AssumeRole, TagSession}) || len(trust[0].Principal) != 1 {
			t.Errorf("%s: %+v", name, trust)
		}
	}
}
