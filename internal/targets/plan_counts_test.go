package targets

import (
	"testing"
	"time"
)

// TestWhatLeavesIsCounted says of a target that leaves that it does until its traffic has ended, whatever a
// new leader knows of the cloud: people end what is said to be out.
func TestWhatLeavesIsCounted(t *testing.T) {
	unread := func(g *KnownGroup) { g.Registered, g.ReadAt, g.Live = nil, time.Time{}, false }
	for name, c := range map[string]struct {
		change           func(s *State)
		targets, healthy int32
	}{
		"all is known":                         {func(*State) {}, 1, 1},
		"the group is not read yet":            {func(s *State) { unread(s.group()) }, 1, 0},
		"the groups are not listed yet":        {func(s *State) { s.Accounts[0].Groups, s.Accounts[0].ListedAt = nil, time.Time{} }, 1, 0},
		"the group is not found":               {func(s *State) { s.Accounts[0].Groups = nil }, 1, 0},
		"nothing is known of the account":      {func(s *State) { s.Accounts = nil }, 1, 0},
		"the bindings are not listed yet":      {func(s *State) { s.Bindings = Bindings{} }, 1, 0},
		"other objects may be missing":         {func(s *State) { s.Behind = true }, 1, 1},
		"the group is left alone":              {func(s *State) { s.group().LeftAlone = "it sticks" }, 1, 0},
		"a record of the group cannot be read": {func(s *State) { s.Attachments[0].Object.Status.Groups[0].Targets[0] = "a:b:c" }, 1, 0},
		"a binding has the group": {func(s *State) {
			s.Bindings.All = []Binding{{Name: "ns/binding", ARN: "arn:web"}}
		}, 0, 0},
	} {
		for _, left := range []time.Time{{}, noon.Add(-5 * time.Second)} {
			s := fleetOf(webGroup(Instance), at80("i-a"))
			in := in80("i-a:80")
			in.Leaving = leaving80(left, "i-b:80").Leaving
			s.attachment("web", onNodes("node-a"), in)
			c.change(&s)
			got := plan(t, s).of("web").Status
			if got.Leaving != 1 || got.Targets != c.targets || got.Healthy != c.healthy {
				t.Errorf("%s, left %t: %d leave, %d targets, %d healthy, %+v", name, !left.IsZero(), got.Leaving, got.Targets, got.Healthy, got.Groups)
			}
		}
	}
}

// TestWhatStaysIsNotCountedAsLeaving is of a target whose removal was begun and that is wanted again.
func TestWhatStaysIsNotCountedAsLeaving(t *testing.T) {
	s := fleetOf(webGroup(Instance), at80("i-a", "i-b"))
	in := in80("i-a:80")
	in.Leaving = leaving80(time.Time{}, "i-b:80").Leaving
	s.attachment("web", onNodes("node-a", "node-b"), in)
	d := plan(t, s)
	if got := d.of("web").Status; got.Leaving != 0 || got.Targets != 2 {
		t.Errorf("%d leave, of %d: %s", got.Leaving, got.Targets, d.calls())
	}
}
