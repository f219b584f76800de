package routing

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseWeights(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"cheddar: 50%\nwensleydale: 25%\nstilton: 25%\n", "map[cheddar:50000 stilton:25000 wensleydale:25000]"},
		{"a: 11.5%\n# canary\n\n'b': \"88.5 %\"", "map[a:11500 b:88500]"},
		{"a: 0%", "map[a:0]"}, {"a: 0.001%", "map[a:1]"}, {"a: 100%", "map[a:100000]"},
		{"", "it is empty"}, {"a: 60%\nb: 60%", "more than 100%"}, {"a: 1%\na: 2%", "twice"}, {"a: 50", "no percentage"}, {"a: -1%", "no percentage"},
		{"a: 101%", "no percentage"}, {"a: 1e1%", "no percentage"}, {"a", "not a service"}, {": 5%", "not a service"}, {"a: 1.%", "no percentage"}, {"a: 1.2345%", "no percentage"},
		{"a: %", "no percentage"}, {"a: 99999999999%", "no percentage"}, {"a: +5%", "no percentage"},
	} {
		w, err := parseWeights(test.text)
		got := fmt.Sprint(map[string]uint32(w))
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%q is %s, not %s", test.text, got, test.want)
		}
	}
}

// FuzzWeights: what is read is never more than 100% together.
func FuzzWeights(f *testing.F) {
	for _, s := range []string{"a: 50%", "a: 50%\nb: 50.5%", ":", "a:%", "\"a\": '5%'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWeights(text)
		if err != nil {
			return
		}
		sum := uint32(0)
		for name, weight := range w {
			if name == "" {
				t.Errorf("%q has a weight without a name", text)
			}
			sum += weight
		}
		if len(w) == 0 || len(w) > maxWeights || sum > hundredPercent {
			t.Errorf("%q is %v", text, w)
		}
	})
}
