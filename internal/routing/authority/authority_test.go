package authority

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const serverName = "stream.example.com"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// failer is a test, or a draw of a property.
type failer interface {
	Helper()
	Fatal(...any)
}

// cluster is what there is in objects.
type cluster struct {
	secret     *Secret
	configMaps map[string]map[string]string
}

// process is a replica of the controller.
type process struct {
	memory Memory
	// ahead is how far its clock is.
	ahead time.Duration
	leads bool
}

// decide has a process decide. Nothing is written.
func (p *process) decide(t failer, c *cluster, now time.Time) Decision {
	t.Helper()
	d, err := Decide(p.state(c, now))
	if err != nil {
		t.Fatal(err)
	}
	p.memory = d.Memory
	return d
}

func (p *process) state(c *cluster, now time.Time) State {
	return State{
		Now: now.Add(p.ahead), Random: rand.Reader, ServerName: serverName, Address: "10.0.0.1:9443", Leads: p.leads,
		Secret: c.secret, ConfigMaps: c.configMaps, Memory: p.memory,
	}
}

// apply makes the writes of a decision, and says how many there were.
func (c *cluster) apply(d Decision) (writes int) {
	if d.Secret != nil {
		c.secret = &Secret{SecretType, d.Secret}
		writes++
	}
	for namespace, data := range d.ConfigMaps {
		c.configMaps[namespace] = data
		writes++
	}
	return writes
}

// settle decides and writes until nothing is left to write, and gives the last decision.
func (p *process) settle(t failer, c *cluster, now time.Time) Decision {
	t.Helper()
	for range 10 {
		if d := p.decide(t, c, now); c.apply(d) == 0 {
			return d
		}
	}
	t.Fatal("it writes on and on")
	return Decision{}
}

// slots are the files of the Secret.
func (c *cluster) slots() string {
	return strings.Join(slices.Sorted(maps.Keys(c.secret.Data)), " ")
}

// install is a cluster with proxies in two namespaces, and a leader.
func install(t failer) (*cluster, *process) {
	t.Helper()
	c := &cluster{configMaps: map[string]map[string]string{"a": nil, "b": nil}}
	p := &process{leads: true}
	if d := p.settle(t, c, noon); d.Signer == nil {
		t.Fatal("nobody signs at first, where nobody trusts anybody yet")
	}
	return c, p
}

// accepts reports whether who trusts what a ConfigMap holds accepts what is signed, by a clock.
func accepts(t failer, data map[string]string, signed *Certificate, at time.Time) bool {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(data[FileAuthorities]))
	_, err := signed.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: serverName, CurrentTime: at})
	return err == nil
}

func sign1(t failer, a *Authority, now time.Time) *Certificate {
	t.Helper()
	c, err := a.Sign(rand.Reader, serverName, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFirst: the first authority signs at once, is published in each namespace, and lasts.
func TestFirst(t *testing.T) {
	c, p := install(t)
	if got := c.slots(); got != "sha256 signing.crt signing.key" {
		t.Errorf("kept is %s", got)
	}
	d := p.decide(t, c, noon.Add(time.Minute))
	if d.Secret != nil || len(d.ConfigMaps) != 0 || !d.WakeAt.Equal(noon.Add(authorityLife-renewedBefore)) || d.Problem != "" {
		t.Errorf("at rest: %+v", d)
	}
	for namespace, data := range c.configMaps {
		if !accepts(t, data, sign1(t, d.Signer, noon), noon) || data[FileAddress] != "10.0.0.1:9443" || len(data) != 2 {
			t.Errorf("published in %s is %v", namespace, data)
		}
	}
	follower := &process{}
	if d := follower.decide(t, c, noon); d.Signer == nil || d.Secret != nil || len(d.ConfigMaps) != 0 {
		t.Errorf("a follower: %+v", d)
	}
	// Who only follows writes nothing, whatever is missing.
	if d := follower.decide(t, &cluster{configMaps: map[string]map[string]string{"a": nil}}, noon); d.Secret != nil || len(d.ConfigMaps) != 0 {
		t.Errorf("a follower writes: %+v", d)
	}
}

// TestSuccession: long before an authority ends the next one is made, then published, and signs when it was
// published for 5 minutes. The old one is trusted as long as what it signed, and then forgotten.
func TestSuccession(t *testing.T) {
	c, p := install(t)
	old := p.memory.signer
	at := noon.Add(authorityLife - renewedBefore)
	d := p.decide(t, c, at)
	if d.Secret == nil || len(d.ConfigMaps) != 0 {
		t.Fatalf("it is published before it is kept: %+v", d)
	}
	c.apply(d)
	if d = p.decide(t, c, at); len(d.ConfigMaps) != 2 {
		t.Fatalf("it is not published: %+v", d)
	}
	c.apply(d)
	begun := at.Add(time.Second)
	if d = p.decide(t, c, begun); !d.Signer.is(old) || !d.WakeAt.Equal(begun.Add(propagation)) || c.slots() != "next.crt next.key sha256 signing.crt signing.key" {
		t.Errorf("after it is published: %+v, kept is %s", d, c.slots())
	}
	if d = p.settle(t, c, begun.Add(propagation-time.Second)); !d.Signer.is(old) {
		t.Error("it signs before it was published for long enough")
	}
	signs := begun.Add(propagation)
	if d = p.settle(t, c, signs); d.Signer.is(old) || c.slots() != "former.crt sha256 signing.crt signing.key" {
		t.Errorf("it does not sign in time: kept is %s", c.slots())
	}
	leaf := sign1(t, old, signs)
	for namespace, data := range c.configMaps {
		if !accepts(t, data, leaf, leaf.Leaf.NotAfter) {
			t.Errorf("what the old one signed is not trusted in %s", namespace)
		}
	}
	if !d.WakeAt.Equal(signs.Add(formerFor)) || leaf.Leaf.NotAfter.After(d.WakeAt.Add(-backdated)) {
		t.Errorf("the old one is looked at again at %v", d.WakeAt)
	}
	if p.settle(t, c, signs.Add(formerFor-time.Second)); !strings.Contains(c.slots(), slotFormer) {
		t.Error("the old one is forgotten early")
	}
	p.settle(t, c, signs.Add(formerFor))
	if strings.Contains(c.slots(), slotFormer) || accepts(t, c.configMaps["a"], sign1(t, old, signs), signs) {
		t.Errorf("the old one is still trusted: kept is %s", c.slots())
	}
}

// TestWaitsForAll: an authority does not sign while a namespace does not have it, or lost it meanwhile.
func TestWaitsForAll(t *testing.T) {
	c, p := install(t)
	old := p.memory.signer
	at := noon.Add(authorityLife - renewedBefore)
	p.settle(t, c, at)
	c.configMaps["b"] = map[string]string{FileAddress: "evil:1"}
	c.configMaps["c"] = nil
	edited := at.Add(4 * time.Minute)
	p.settle(t, c, edited)
	if diff := cmp.Diff(c.configMaps["a"], c.configMaps["b"]); diff != "" || c.configMaps["c"] == nil {
		t.Errorf("it is not restored: %s", diff)
	}
	if d := p.settle(t, c, edited.Add(propagation-time.Second)); !d.Signer.is(old) {
		t.Error("it signs though a namespace did not have it for long enough")
	}
	if d := p.settle(t, c, edited.Add(propagation)); d.Signer.is(old) {
		t.Error("it does not sign in time")
	}
}

// TestLastCall: who changes one ConfigMap again and again keeps the next authority from signing until a day
// before the end of the old one, and no longer.
func TestLastCall(t *testing.T) {
	c, p := install(t)
	old := p.memory.signer
	end := old.Certificate.NotAfter
	spoiled := func(at time.Time) Decision {
		d := p.settle(t, c, at)
		c.configMaps["b"] = nil
		return d
	}
	for _, test := range []struct {
		at  time.Time
		old bool
	}{{end.Add(-renewedBefore), true}, {end.Add(-10 * lastCall), true}, {end.Add(-lastCall - time.Second), true}, {end.Add(-lastCall), false}} {
		if d := spoiled(test.at); d.Signer.is(old) != test.old {
			t.Errorf("%v before its end the old one signs: %v", end.Sub(test.at), !test.old)
		}
	}
	// One that is made only then is tried to be published for an hour.
	c, p = install(t)
	old = p.memory.signer
	late := end.Add(-time.Hour - time.Minute)
	if spoiled(late); !spoiled(late.Add(lastTries-time.Second)).Signer.is(old) || spoiled(late.Add(lastTries)).Signer.is(old) {
		t.Error("the next one does not sign an hour after it was made, where the old one ends")
	}
}

// TestSecretLeftAlone: what cannot be read, or is somebody else's, is left as it is, and said. Who signed
// before goes on, and is published on.
func TestSecretLeftAlone(t *testing.T) {
	files := func(change func(map[string][]byte)) func(*Secret) {
		return func(s *Secret) {
			change(s.Data)
			s.Data[fileSum] = sumOf(s.Data)
		}
	}
	_, other := install(t)
	for name, test := range map[string]struct {
		change func(*Secret)
		say    string
	}{
		"another type":      {func(s *Secret) { s.Type = "Opaque" }, "somebody else's"},
		"edited":            {func(s *Secret) { s.Data["signing.crt"] = other.memory.signer.pem() }, "somebody changed it"},
		"a file more":       {func(s *Secret) { s.Data["note"] = nil }, "somebody changed it"},
		"a file less":       {func(s *Secret) { delete(s.Data, fileSum) }, "somebody changed it"},
		"emptied":           {func(s *Secret) { s.Data = nil }, "somebody changed it"},
		"nothing":           {files(func(d map[string][]byte) { clear(d) }), "no authority"},
		"no certificate":    {files(func(d map[string][]byte) { d["signing.crt"] = []byte("x") }), "signing.crt is not one certificate"},
		"two":               {files(func(d map[string][]byte) { d["signing.crt"] = bytes.Repeat(d["signing.crt"], 2) }), "signing.crt is not one certificate"},
		"no key":            {files(func(d map[string][]byte) { delete(d, "signing.key") }), "it has no signing.key"},
		"another's key":     {files(func(d map[string][]byte) { d["signing.crt"] = other.memory.signer.pem() }), "signing.key is not that of its signing.crt"},
		"no key of next":    {files(func(d map[string][]byte) { d["next.crt"] = d["signing.crt"] }), "it has no next.key"},
		"former that is no": {files(func(d map[string][]byte) { d["former.crt"] = []byte("x") }), "former.crt cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := install(t)
			before := p.memory.signer
			c.secret.Data = maps.Clone(c.secret.Data)
			test.change(c.secret)
			c.configMaps["b"] = map[string]string{}
			restored := noon.Add(time.Hour)
			if d := p.settle(t, c, restored); d.Secret != nil || !strings.Contains(d.Problem, test.say) || d.Signer != nil {
				t.Errorf("where a namespace does not have it, decided is %+v", d)
			}
			if d := p.settle(t, c, restored.Add(propagation-time.Second)); d.Signer != nil {
				t.Error("it signs before it was published again for long enough")
			}
			if d := p.settle(t, c, restored.Add(propagation)); d.Signer == nil || !d.Signer.is(before) {
				t.Errorf("who signed before does not: %+v", d)
			}
			if !accepts(t, c.configMaps["b"], sign1(t, before, noon), noon) {
				t.Error("who signed before is not published any more")
			}
			// A process that has only begun knows nobody, and leaves all as it is.
			c.configMaps["b"] = nil
			fresh := &process{leads: true}
			if d := fresh.decide(t, c, noon); d.Signer != nil || d.Secret != nil || len(d.ConfigMaps) != 0 || d.Problem == "" {
				t.Errorf("a fresh process: %+v", d)
			}
		})
	}
}

// TestSpoiledBeside: who changes one ConfigMap again and again while the Secret is left alone keeps who signed before from
// signing for an hour, in which the leader publishes it, and no longer.
func TestSpoiledBeside(t *testing.T) {
	for _, leads := range []bool{true, false} {
		c, p := install(t)
		p.leads = leads
		c.secret = &Secret{SecretType, map[string][]byte{"signing.crt": []byte("another")}}
		for after := time.Duration(0); after <= lastTries; after += 4 * time.Minute {
			c.configMaps["b"] = map[string]string{}
			d := p.settle(t, c, noon.Add(time.Hour+after))
			if signs := d.Signer != nil; signs != (leads && after == lastTries) {
				t.Errorf("leading: %t, after %v: it signs: %t", leads, after, signs)
			}
			if leads && after < lastTries && (d.WakeAt.IsZero() || d.WakeAt.After(noon.Add(time.Hour+after+propagation))) {
				t.Errorf("after %v the next pass is at %v", after, d.WakeAt)
			}
		}
	}
}

// TestSecretDeleted: a new authority is made, and signs when it was published for 5 minutes. Until then who
// signed before does, and is trusted for as long as what it signed.
func TestSecretDeleted(t *testing.T) {
	c, p := install(t)
	old := p.memory.signer
	c.secret = nil
	at := noon.Add(time.Hour)
	if d := p.settle(t, c, at); !d.Signer.is(old) || c.slots() != "former.crt next.crt next.key sha256" {
		t.Errorf("decided is %+v, kept is %s", d, c.slots())
	}
	if d := p.settle(t, c, at.Add(propagation)); d.Signer.is(old) || !accepts(t, c.configMaps["a"], sign1(t, old, at), at) {
		t.Error("the new one does not sign, or the old one is not trusted")
	}
	// Nobody who runs knows it any more.
	c.secret = nil
	fresh := &process{leads: true}
	if d := fresh.settle(t, c, at); d.Signer != nil || c.slots() != "next.crt next.key sha256" {
		t.Errorf("a fresh process: %+v, kept is %s", d, c.slots())
	}
	// One that does may not sign by whom nobody publishes any more.
	if d := p.decide(t, c, at.Add(propagation)); d.Signer != nil {
		t.Error("a process signs by an authority that is published no more")
	}
	if d := fresh.settle(t, c, at.Add(propagation)); d.Signer == nil {
		t.Error("the new one does not sign")
	}
	// All is deleted, and this process knows what was there.
	c.secret, c.configMaps = nil, map[string]map[string]string{"a": nil}
	if fresh.settle(t, c, at.Add(time.Hour)); !strings.Contains(c.slots(), slotNext) {
		t.Errorf("a new one signs at once, though another one was trusted: kept is %s", c.slots())
	}
}

// TestConfigMapGone: while the Secret is broken nobody signs by whom a ConfigMap that is gone may not have named last:
// another process may have written it since this one read the Secret.
func TestConfigMapGone(t *testing.T) {
	c, p := install(t)
	p.leads = false
	was := c.configMaps["b"]
	c.secret = &Secret{SecretType, map[string][]byte{"signing.crt": []byte("another")}}
	at := noon.Add(time.Hour)
	for _, step := range []struct {
		after time.Duration
		said  map[string]string
		signs bool
	}{{0, was, true}, {time.Second, nil, false}, {2 * time.Second, was, false}, {2*time.Second + propagation, was, true}} {
		c.configMaps["b"] = step.said
		if d := p.decide(t, c, at.Add(step.after)); (d.Signer != nil) != step.signs {
			t.Errorf("after %v: %t", step.after, d.Signer != nil)
		}
	}
}

// TestBackup: of a Secret from a backup a process that signed by another waits until it is published.
func TestBackup(t *testing.T) {
	c, p := install(t)
	backup := c.secret
	at := noon.Add(authorityLife - renewedBefore)
	p.settle(t, c, at)
	p.settle(t, c, at.Add(propagation))
	p.settle(t, c, at.Add(time.Hour))
	p.settle(t, c, at.Add(time.Hour+formerFor))
	back := at.Add(100 * time.Hour)
	c.secret = backup
	p.settle(t, c, back)
	for _, test := range []struct {
		after time.Duration
		signs bool
	}{{0, false}, {time.Second, false}, {propagation - time.Second, false}, {propagation, true}} {
		if d := p.decide(t, c, back.Add(test.after)); (d.Signer != nil && d.Signer.Certificate.NotAfter.Equal(noon.Add(authorityLife))) != test.signs {
			t.Errorf("%v after it came back it signs: %v", test.after, !test.signs)
		} else if !test.signs && !d.WakeAt.Equal(back.Add(propagation)) {
			t.Errorf("it is looked at again at %v", d.WakeAt)
		}
	}
}

// TestAddress: ConfigMaps follow the address, and none is written where it is not known.
func TestAddress(t *testing.T) {
	c, p := install(t)
	s := p.state(c, noon)
	s.Address = "10.0.0.2:9443"
	if d, err := Decide(s); err != nil || len(d.ConfigMaps) != 2 || d.ConfigMaps["a"][FileAddress] != s.Address {
		t.Errorf("decided is %+v, %v", d, err)
	}
	c.configMaps["b"] = maps.Clone(c.configMaps["b"])
	c.configMaps["b"]["note"] = "mine"
	if d := p.settle(t, c, noon); len(c.configMaps["b"]) != 2 || d.Problem != "" {
		t.Errorf("a file that somebody added stays: %v", c.configMaps["b"])
	}
	s.Address = ""
	s.ConfigMaps = map[string]map[string]string{"a": nil}
	if d, err := Decide(s); err != nil || len(d.ConfigMaps) != 0 {
		t.Errorf("without an address: %+v, %v", d, err)
	}
}

// TestSign: a certificate is for one name and for hours, is valid for who is behind, ends with its
// authority, and is replaced at half of its life or with its authority.
func TestSign(t *testing.T) {
	_, p := install(t)
	a := p.memory.signer
	c := sign1(t, a, noon)
	leaf := c.Leaf
	if !slices.Equal(leaf.DNSNames, []string{serverName}) || leaf.IsCA || !leaf.NotAfter.Equal(noon.Add(certificateLife)) ||
		leaf.NotBefore.After(noon.Add(-15*time.Minute)) || a.Certificate.NotBefore.After(noon.Add(-15*time.Minute)) {
		t.Errorf("it is for %v, from %v to %v", leaf.DNSNames, leaf.NotBefore, leaf.NotAfter)
	}
	if c.RenewAt != noon.Add(certificateLife/2) || !c.Stands(a, c.RenewAt.Add(-1)) || c.Stands(a, c.RenewAt) {
		t.Errorf("it is renewed at %v", c.RenewAt)
	}
	_, other := install(t)
	var none *Certificate
	if c.Stands(other.memory.signer, noon) || !c.Stands(nil, c.RenewAt) || none.Stands(a, noon) || none.Stands(nil, noon) {
		t.Error("it stands where another signs, or does not where nobody does, or there is none")
	}
	end := a.Certificate.NotAfter
	if last := sign1(t, a, end.Add(-time.Hour)); !last.Leaf.NotAfter.Equal(end) || !last.RenewAt.Equal(end.Add(-30*time.Minute)) {
		t.Errorf("the last one ends at %v, after its authority at %v", last.Leaf.NotAfter, end)
	}
	if p.memory.signer.until(end) != nil || p.memory.signer.until(end.Add(-1)) == nil {
		t.Error("an authority signs after its end, or not until then")
	}
	foreign, err := a.Sign(rand.Reader, "other.example.com", noon)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)
	if _, err := foreign.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.example.com", CurrentTime: noon}); err == nil {
		t.Error("an authority signs for another name")
	}
}

type failing struct{ short bool }

func (f failing) Read(b []byte) (int, error) {
	if f.short {
		return len(b) - 1, nil
	}
	return 0, errors.New("no randomness")
}

// TestNoRandomness: without it nothing is decided.
func TestNoRandomness(t *testing.T) {
	for _, r := range []failing{{false}, {true}} {
		p := &process{leads: true}
		s := p.state(&cluster{}, noon)
		s.Random = r
		if d, err := Decide(s); err == nil || d.Secret != nil {
			t.Errorf("%+v: decided is %+v", r, d)
		}
	}
}
