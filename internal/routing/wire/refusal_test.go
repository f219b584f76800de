package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRefusals are read as they were written, whatever is in names, and reasons in one line.
func TestRefusals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := several(t, "refusals", func(t *rapid.T) Refusal {
			return Refusal{rapid.String().Draw(t, "name"), rapid.StringMatching(`[ -~ä]{0,40}`).Draw(t, "reason")}
		})
		if diff := cmp.Diff(all, Refused(all).Refusals()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRefusalsForPeople(t *testing.T) {
	status := Refused([]Refusal{{"route/a", "a\nb\x00c\xffd"}, {"", strings.Repeat("ä", 400)}})
	if want := "\"route/a\": a b c?d\n\"\": " + strings.Repeat("ä", 256); status.Code != 3 || status.Message != want {
		t.Errorf("got %d %q, want 3 %q", status.Code, status.Message, want)
	}
	if status := Refused(nil); status != nil {
		t.Errorf("nothing is refused, and it says %v", status)
	}
}

// TestRefusalsOfOthers: what is of another form is the reason of a whole response.
func TestRefusalsOfOthers(t *testing.T) {
	for _, text := range []string{"", "no", `"a`, `"a"`, `"a":b`, "`a`b"} {
		want := []Refusal{{Reason: text}}
		if diff := cmp.Diff(want, (&Status{Message: text}).Refusals()); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestRefusalsAreBounded: who answers is not believed to be brief.
func TestRefusalsAreBounded(t *testing.T) {
	for _, message := range []string{strings.Repeat("\n", 1<<20), strings.Repeat("a", 1<<20)} {
		bytes := 0
		all := (&Status{Code: invalidArgument, Message: message}).Refusals()
		for _, r := range all {
			bytes += len(r.Name) + len(r.Reason)
		}
		if len(all) > maxRefusals || bytes > maxRefusalBytes {
			t.Errorf("%d refusals of %d bytes", len(all), bytes)
		}
	}
}

// FuzzRefusals: what is read of a status, whoever wrote it, has a bound, and is read again as it is written.
func FuzzRefusals(f *testing.F) {
	for _, message := range []string{"", "\"backend/a\": no port", "\"a\\n\": x\n\"b\":y\nz", "'a': b", "\"\\xff\": \u2028", "\"a\": " + strings.Repeat("é", 300)} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		all := (&Status{Message: message}).Refusals()
		if len(all) == 0 || len(all) > maxRefusals {
			t.Fatalf("%q has %d refusals", message, len(all))
		}
		once := Refused(all)
		if again := Refused(once.Refusals()); len(once.Message) <= maxRefusalBytes && again.Message != once.Message {
			t.Errorf("%q is read and written as %q", once.Message, again.Message)
		}
	})
}
