package authority

import (
	"crypto/rand"
	"testing"
	"time"
)

// TestCountsAnew: what is waited for counts from when it was first so. Former authorities beside another signer
// may have signed until it came; who only follows does not try to publish the next one.
func TestCountsAnew(t *testing.T) {
	made := func() *Authority {
		a, err := makeAuthority(rand.Reader, serverName, noon)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b, c := made(), made(), made()
	before := kept{signing: b, former: []*Authority{a}}
	for name, test := range map[string]struct {
		first, then kept
		// leads says whether it led at first, too.
		leads bool
		wait  time.Duration
		anew  bool
	}{
		"former ones beside the same signer": {before, before, true, formerFor, false},
		"former ones beside another signer":  {before, kept{signing: c, former: []*Authority{a}}, true, formerFor, true},
		"a next one, as the leader":          {kept{next: b}, kept{next: b}, true, lastTries, false},
		"a next one, as a follower":          {kept{next: b}, kept{next: b}, false, lastTries, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &process{leads: test.leads}
			// A namespace never comes to name any of them.
			world := &cluster{configMaps: map[string]map[string]string{"b": {}}}
			sees := func(k kept, at time.Time) (writes bool) {
				data, err := k.data()
				if err != nil {
					t.Fatal(err)
				}
				world.secret = &Secret{SecretType, data}
				return p.decide(t, world, at).Secret != nil
			}
			if sees(test.first, noon) {
				t.Fatal("it is over at once")
			}
			p.leads = true
			then := noon.Add(test.wait)
			if test.anew {
				if sees(test.then, then) || sees(test.then, then.Add(test.wait-time.Second)) {
					t.Error("it is over, counted from when it was not so yet")
				}
				then = then.Add(test.wait)
			}
			if !sees(test.then, then) {
				t.Error("it is not over in time")
			}
		})
	}
}
