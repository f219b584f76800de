package authority

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTrustedIsSigned: whoever trusts what ConfigMaps said up to 5 minutes ago accepts what any process
// signs now, whatever happened: crashes between any two writes, changes of leader, clocks 15 minutes
// apart, objects that somebody changed or deleted, namespaces that come and go.
func TestTrustedIsSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &trustWorld{
			cluster: cluster{configMaps: map[string]map[string]string{"a": nil}}, now: noon, told: map[string][]said{}, checked: map[[2]string]bool{},
			processes: []*process{{ahead: -450 * time.Second, leads: true}, {ahead: 450 * time.Second}},
		}
		for range 60 {
			w.happen(t)
			for i := range w.processes {
				w.pass(t, i)
			}
		}
	})
}

// trustWorld is a cluster, and what proxies were told.
type trustWorld struct {
	cluster
	now       time.Time
	processes []*process
	// told is what each namespace's ConfigMap said since when. Of one that is deleted kubelet keeps what it said.
	told map[string][]said
	// checked are pairs of who signed and what was said, of which one was verified.
	checked map[[2]string]bool
}

type said struct {
	at   time.Time
	data map[string]string
	// edited says whether somebody else said it.
	edited bool
}

func (w *trustWorld) say(namespace string, data map[string]string, edited bool) {
	w.configMaps[namespace] = data
	w.told[namespace] = append(w.told[namespace], said{w.now, data, edited})
}

// happen lets time pass and one thing happen.
func (w *trustWorld) happen(t *rapid.T) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 4 * time.Minute, 5 * time.Minute, 2 * time.Hour, 14 * time.Hour, 90 * 24 * time.Hour}).Draw(t, "passes"))
	namespace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
	_, there := w.configMaps[namespace]
	switch what := rapid.IntRange(0, 11).Draw(t, "what"); {
	case what == 0 && there:
		w.configMaps[namespace] = nil
	case what == 1 && there:
		w.say(namespace, map[string]string{FileAddress: "elsewhere:1"}, true)
	case what == 2 && !there:
		w.configMaps[namespace] = nil
	case what == 3 && there:
		delete(w.configMaps, namespace)
		delete(w.told, namespace)
	case what == 4:
		w.secret = nil
	case what == 5 && w.secret != nil:
		w.secret = &Secret{SecretType, maps.Clone(w.secret.Data)}
		w.secret.Data["next.crt"] = []byte("another")
	case what == 6:
		w.processes[0].leads, w.processes[1].leads = w.processes[1].leads, w.processes[0].leads
	case what == 7:
		w.processes[rapid.IntRange(0, 1).Draw(t, "crashes")].memory = Memory{}
	}
}

// pass has a process decide, write some or all of it, and sign.
func (w *trustWorld) pass(t *rapid.T, i int) {
	p := w.processes[i]
	for range 4 {
		w.begunAnew()
		d := p.decide(t, &w.cluster, w.now)
		w.check(t, i, d)
		if d.Secret == nil && len(d.ConfigMaps) == 0 {
			return
		}
		if w.write(t, d) {
			p.memory = Memory{}
		}
	}
}

// begunAnew forgets what proxies were told where nothing of it is left anywhere, as after an uninstallation.
func (w *trustWorld) begunAnew() {
	for _, data := range w.configMaps {
		if data != nil {
			return
		}
	}
	if w.secret == nil && len(w.processes[0].memory.known)*len(w.processes[1].memory.known) == 0 {
		w.processes[0].memory, w.processes[1].memory = Memory{}, Memory{}
		clear(w.told)
	}
}

// write makes the writes of a decision, until it crashes.
func (w *trustWorld) write(t *rapid.T, d Decision) (crashed bool) {
	crashes := func() bool { return rapid.IntRange(0, 9).Draw(t, "crash") == 0 }
	if d.Secret != nil {
		w.secret = &Secret{SecretType, d.Secret}
		return crashes()
	}
	for _, namespace := range slices.Sorted(maps.Keys(d.ConfigMaps)) {
		if crashes() {
			return true
		}
		w.say(namespace, d.ConfigMaps[namespace], false)
	}
	return false
}

// check holds what is signed against what was said.
func (w *trustWorld) check(t *rapid.T, i int, d Decision) {
	if d.Signer == nil {
		return
	}
	for namespace := range w.configMaps {
		for n, s := range w.told[namespace] {
			over := n+1 < len(w.told[namespace]) && !w.told[namespace][n+1].at.After(w.now.Add(-propagation))
			if !s.edited && !over && !w.accepts(t, w.processes[i], d.Signer, s.data) {
				t.Fatalf("who trusts what was said in %s at %v does not accept what process %d signs at %v", namespace, s.at, i, w.now)
			}
		}
	}
}

// accepts reports whether who trusts what a ConfigMap says accepts what a process signs, by each clock.
func (w *trustWorld) accepts(t *rapid.T, p *process, signer *Authority, data map[string]string) bool {
	behind, last := w.now.Add(-450*time.Second), signer.Certificate.NotAfter
	if signer.Certificate.NotBefore.After(behind) || last.Before(w.now.Add(p.ahead)) {
		return false
	}
	pair := [2]string{signer.id(), data[FileAuthorities]}
	if w.checked[pair] {
		return true
	}
	signed := sign1(t, signer, w.now.Add(p.ahead))
	for _, at := range []time.Time{behind, w.now.Add(450 * time.Second)} {
		if at.Before(last) && !accepts(t, data, signed, at) {
			return false
		}
	}
	w.checked[pair] = true
	return true
}
