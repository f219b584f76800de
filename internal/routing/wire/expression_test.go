package wire

import (
	"strings"
	"testing"
)

// TestExpressions: a whole value must match, and no part of an expression reaches out of it.
func TestExpressions(t *testing.T) {
	for _, test := range []struct {
		expression, value string
		want              bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"a", "ba", false},
		{"a|b", "ab", false},
		{"a|b", "b", true},
		{"", "", true},
		{"", "a", false},
		{`\Qa.b`, "a.b", true},
		{`\Qa.b`, "axb", false},
		{"(?i)abc", "ABC", true},
		{"(?m)^a$", "a\nb", false},
		{"a$", "a\n", false},
		{".*", "a\nb", false},
		{"(?s).*", "a\nb", true},
		{"v[0-9]{1,3}", "v12", true},
		{`\d+`, "1x", false},
	} {
		r, _, err := CompileExpression(test.expression)
		if err != nil {
			t.Errorf("%q: %v", test.expression, err)
			continue
		}
		if got := r.MatchString(test.value); got != test.want {
			t.Errorf("%q on %q: got %t", test.expression, test.value, got)
		}
	}
	for expression, say := range map[string]string{
		"(":                                    "missing closing",
		"a)(b":                                 "unexpected )",
		`(a)\1`:                                "invalid escape",
		"(?=a)":                                "invalid or unsupported",
		strings.Repeat("a", 1025):              "1025 bytes, more than 1024",
		"((a{100}){100}){100}":                 "repeat",
		"(a{90}){90}":                          "invalid repeat count",
		"[a-z]{1000}b{1000}(c|d)*":             "",
		"[a-z]{1000}b{1000}c{1000}":            "repeats too much",
		"(?:a{9}b{9}c{9}){40}d{999}(e{0,999})": "repeats too much",
	} {
		_, _, err := CompileExpression(expression)
		if say == "" && err != nil || say != "" && (err == nil || !strings.Contains(err.Error(), say)) {
			t.Errorf("%.40q: got %v, want an error with %q", expression, err, say)
		}
	}
}
