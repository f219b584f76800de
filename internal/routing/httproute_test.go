package routing

import (
	"strings"
	"testing"
)

func TestIntersecting(t *testing.T) {
	for _, test := range []struct {
		route, listener string
		want            bool
	}{
		{"a.example", "", true}, {"a.example", "a.example", true}, {"A.example", "a.example", true}, {"a.example", "b.example", false},
		{"a.example", "*.example", true}, {"b.a.example", "*.example", true}, {"example", "*.example", false}, {"*.example", "a.example", true},
		{"*.example", "*.example", true}, {"*.a.example", "*.example", true}, {"*.example", "*.a.example", true}, {"*.other", "*.example", false}, {"badexample", "*.example", false},
	} {
		if got := len(intersecting([]string{test.route}, test.listener)) > 0; got != test.want {
			t.Errorf("%q at %q: %t", test.route, test.listener, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		text string
		want uint32
		ok   bool
	}{
		{"0s", 0, true}, {"10s", 10_000, true}, {"1h2m3s4ms", 3_723_004, true}, {"500ms", 500, true}, {"1.5s", 0, false}, {"-1s", 0, false}, {"", 0, false},
		{"1", 0, false}, {"100000s", 0, false}, {"1us", 0, false}, {"1h1h1h1h1h", 0, false}, {"99999h", 0, false},
	} {
		if got, err := readDuration("request", &test.text); got != test.want || (err == nil) != test.ok {
			t.Errorf("%q is %d, %v", test.text, got, err)
		}
	}
}

func TestExpressions(t *testing.T) {
	for _, test := range []struct{ expression, want string }{
		{"a.*", ""}, {"a(?=b)", "at byte 1"}, {"ab[z-a]", "at byte 3"}, {strings.Repeat("a", maxExpression), ""}, {strings.Repeat("a", maxExpression+1), "longer than 1024"}, {"a{2000}", "at byte 1"},
	} {
		err := checkExpression(test.expression)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.20q: %v, not %q", test.expression, err, test.want)
		}
	}
}
