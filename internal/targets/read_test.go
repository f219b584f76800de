package targets

import (
	"strings"
	"testing"
	"time"
)

// TestWhenToRead looks at the time of the next read.
func TestWhenToRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*GroupState)
		after  time.Duration
	}{
		{"nothing moves", func(*GroupState) {}, 59 * time.Second},
		{"never read", func(s *GroupState) { s.ReadAt = time.Time{} }, 0},
		{"health checks are under way", func(s *GroupState) { s.Registered[one] = Health{Condition: Initial} }, 4 * time.Second},
		{"a removal waits for it", func(s *GroupState) { s.Wants = []Want{out(one)} }, 0},
		{"a minimum may give way", func(s *GroupState) { s.Wants = []Want{out(one)}; s.Group.MinHealthy = 3 }, 4 * time.Second},
		{"what leaves is looked for at once", func(s *GroupState) {
			s.Wants, s.Records = []Want{ending(one)}, []Record{record(one, true, time.Time{})}
			s.Answers = map[Target]Answer{one: {At: noon, Times: 1}}
		}, 0},
		{"what is registered a little later", func(s *GroupState) {
			delete(s.Registered, one)
			s.Answers = map[Target]Answer{one: {Register: true, At: noon, Times: 1}}
		}, 2 * time.Second},
		{"the settle time passes soon", func(s *GroupState) {
			s.Wants, s.Records = []Want{out(one)}, []Record{record(one, true, noon.Add(-290*time.Second))}
			delete(s.Registered, one)
		}, 10 * time.Second},
		{"the settle time has passed since the read", func(s *GroupState) {
			s.Wants, s.Records = []Want{out(one)}, []Record{record(one, true, noon.Add(-300*time.Second))}
			delete(s.Registered, one)
		}, 0},
	} {
		s := rested()
		c.change(&s)
		if got := decide(s).ReadAt.Sub(noon); got != c.after {
			t.Errorf("%s: read after %s, want %s", c.name, got, c.after)
		}
	}
}

// TestLeftAt is kept in whole seconds by objects, and must not become earlier by that.
func TestLeftAt(t *testing.T) {
	if got := roundUp(noon.Add(time.Nanosecond)); !got.Equal(noon.Add(time.Second)) {
		t.Errorf("got %s", got)
	}
	if got := roundUp(noon); !got.Equal(noon) {
		t.Errorf("got %s", got)
	}
}

func TestFaults(t *testing.T) {
	s := rested()
	s.Wants, s.Records = []Want{ending(one)}, []Record{record(one, true, noon.Add(-time.Hour))}
	if f := decide(s).Faults; len(f) != 1 || !strings.Contains(f[0], "registered again by somebody else") {
		t.Errorf("got %q", f)
	}
	s = rested()
	delete(s.Registered, one)
	s.Answers = map[Target]Answer{one: {Register: true, At: noon.Add(-time.Minute), Times: 3}}
	if f := decide(s).Faults; len(f) != 1 || !strings.Contains(f[0], "registered 3 times") {
		t.Errorf("got %q", f)
	}
}

func TestParseRegistration(t *testing.T) {
	for _, s := range []string{"i-1:80", "10.0.0.1:65535", "[2001:db8::1]:80@all", "i-1:80@eu-west-1a"} {
		if r, err := ParseRegistration(s); err != nil || r.String() != s {
			t.Errorf("%s: %+v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "i-1", "80", "i-1:", ":80", "i-1:http", "i-1:080", "::1", "2001:db8::1:80", "[i-1]:80", "i-1:80@", "i-1:99999999999", ":0"} {
		if r, err := ParseRegistration(s); err == nil || !strings.Contains(err.Error(), "is no target") {
			t.Errorf("%q is taken for %+v, %v", s, r, err)
		}
	}
}
