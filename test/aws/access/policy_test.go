package access

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		fits          bool
	}{
		{"*", "", true}, {"*", "*", true}, {"a*c", "abbbc", true}, {"a*c", "ac", true}, {"a*c", "acb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"", "a", false}, {"a", "", false},
		{"arn:*:targetgroup/*/*", "arn:aws:targetgroup/x/1", true}, {"arn:*", "*", false},
	} {
		if matches(test.pattern, test.text) != test.fits {
			t.Errorf("%q fits %q: must be %v", test.text, test.pattern, test.fits)
		}
	}
}

func TestAuthorize(t *testing.T) {
	const group = "arn:aws:elasticloadbalancing:eu-central-1:1:targetgroup/pods/1"
	policyWith := func(condition, effect string) Principal {
		p, err := parsePolicy(json.RawMessage(`{"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Action": "elasticloadbalancing:*", "Resource": "arn:*:targetgroup/*"` + condition + `}` + effect + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return Principal{"me", p}
	}
	tags := map[string]string{"cluster": "one-a"}
	for _, test := range []struct {
		name   string
		by     Principal
		on     string
		tags   map[string]string
		denied string
	}{
		{"allowed", policyWith("", ""), group, nil, ""},
		{"no resource-level permission", policyWith("", ""), "*", nil, "no identity-based policy"},
		{"denied", policyWith("", `, {"Effect": "Deny", "Action": "elasticloadbalancing:regis*", "Resource": "*"}`), group, nil, "explicit deny"},
		{"like", policyWith(`, "Condition": {"StringLike": {"aws:ResourceTag/cluster": "one-*"}}`, ""), group, tags, ""},
		{"equals, no wildcards", policyWith(`, "Condition": {"StringEquals": {"aws:ResourceTag/cluster": "one-*"}}`, ""), group, tags, "no identity-based policy"},
		{"without the tag", policyWith(`, "Condition": {"StringLike": {"elasticloadbalancing:ResourceTag/cluster": "*"}}`, ""), group, nil, "no identity-based policy"},
		{"any value", policyWith(`, "Condition": {"ForAnyValue:StringEquals": {"elasticloadbalancing:ResourceTag/cluster": ["x", "one-a"]}}`, ""), group, tags, ""},
		{"tag must be there", policyWith(`, "Condition": {"Null": {"aws:ResourceTag/cluster": "false"}}`, ""), group, nil, "no identity-based policy"},
		{"tag is there", policyWith(`, "Condition": {"Null": {"aws:ResourceTag/cluster": "false"}}`, ""), group, tags, ""},
		{"both conditions", policyWith(`, "Condition": {"StringLike": {"aws:ResourceTag/cluster": "*"}, "StringEquals": {"aws:ResourceTag/team": "x"}}`, ""), group, tags, "no identity-based policy"},
	} {
		err := test.by.Authorize("elasticloadbalancing:RegisterTargets", test.on, test.tags)
		if (err == nil) != (test.denied == "") || err != nil && !strings.Contains(err.Error(), test.denied) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestPoliciesThatAreNotUnderstood(t *testing.T) {
	statement := func(text string) string { return `{"Version": "2012-10-17", "Statement": ` + text + `}` }
	for wanted, text := range map[string]string{
		"version":            `{"Version": "2008-10-17", "Statement": []}`,
		"NotAction":          statement(`{"Effect": "Allow", "NotAction": "*", "Resource": "*"}`),
		"are needed":         statement(`{"Effect": "Allow", "Action": "*"}`),
		"operator IpAddress": statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}`),
		"key aws:SourceIp":   statement(`{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"StringEquals": {"aws:SourceIp": "10.0.0.0/8"}}}`),
	} {
		if _, err := parsePolicy(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("expected an error with %q, got %v", wanted, err)
		}
	}
}
