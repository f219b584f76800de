// Package authority decides who signs the certificate with which a controller shows proxies that it is
// one: which authorities there are, when there is a new one, and from when on it signs.
//
// Its files, in the order in which to open them:
//
//   - authority.go: State, Decision, Decide.
//   - sights.go: Memory, what was seen of authorities since when, by our own clock.
//   - kept.go: what the Secret holds of authorities.
//   - sign.go: how an authority is made, and how it signs.
//
// All authorities are kept in one Secret, beside the controllers. Proxies trust those that one ConfigMap in
// their namespace names, which kubelet brings them within minutes. The invariant: what is signed is accepted
// by whoever trusts what ConfigMaps said propagation ago. So a new authority is kept, then published
// beside the old one, then signs, then the old one is kept as one that signed, and at last forgotten: each
// by a write of its own, so that a crash after any of them leaves a state from which the next leader goes on.
//
// Only the leader writes. All replicas read, and each has its own certificate signed by the same authority.
package authority

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// The files of a ConfigMap, as a proxy finds them.
const (
	// FileAuthorities has the certificates of all authorities that a proxy is to trust, as PEM.
	FileAuthorities = "ca.crt"
	// FileAddress is the host and port at which controllers are.
	FileAddress = "address"
)

const (
	// propagation is how long an authority is published everywhere before it signs: kubelet brings a
	// ConfigMap to its pods within minutes.
	propagation = 5 * time.Minute
	// backdated is how long before now a certificate is valid, for clocks that are behind ours: they may be
	// 15 minutes apart (docs/adr/0017).
	backdated = time.Hour
	// authorityLife is for how long an authority is valid, renewedBefore how long before its end there is
	// the next one.
	authorityLife = 365 * 24 * time.Hour
	renewedBefore = 120 * 24 * time.Hour
	// certificateLife is for how long a certificate is valid.
	certificateLife = 12 * time.Hour
	// formerFor is for how long who signed is trusted after the next one signs: what it signed is over.
	formerFor = certificateLife + backdated
	// lastTries is for how long the leader tries to publish an authority everywhere. From lastCall before the
	// end of who signs, and where nobody does, it signs then all the same: who may edit one ConfigMap, or
	// delete it, could otherwise keep the proxies of all others without a controller.
	lastTries = time.Hour
	lastCall  = 24 * time.Hour
)

// State is all that a decision is made from.
type State struct {
	Now time.Time
	// Leads says whether this process may write.
	Leads bool
	// Random is where keys come from.
	Random Random
	// ServerName is what certificates are for.
	ServerName string
	// Address is the host and port at which controllers are, empty where that is not known: no ConfigMap is
	// written then.
	Address string
	// Secret is what the Secret holds, nil where there is none.
	Secret *Secret
	// ConfigMaps are what those hold in each namespace that has proxies, nil for one that is not there.
	// Namespaces that are being deleted are left out.
	ConfigMaps map[string]map[string]string
	// Memory is that of the last decision of this process.
	Memory Memory
}

// Secret is the Secret of authorities, as it is.
type Secret struct {
	// Type is its type, which never changes.
	Type string
	Data map[string][]byte
}

// Decision is what is to be done. ConfigMaps are written by what the Secret holds, never beside it.
type Decision struct {
	// Secret is what it is to hold, nil where it is to stay. It is new where there was none.
	Secret map[string][]byte
	// ConfigMaps are those to write, by namespace, each with all that it is to hold.
	ConfigMaps map[string]map[string]string
	// Signer is who signs now, nil where nobody may yet.
	Signer *Authority
	// Trusted are the certificates of all authorities that may have signed for a controller, as PEM.
	Trusted []byte
	// Problem is why the Secret is left as it is, for people; empty where it is in order.
	Problem string
	// WakeAt is when something is due though nothing changed, zero for never.
	WakeAt time.Time
	// Memory is for the next decision of this process.
	Memory Memory
}

// Decide says who signs and, to who leads, what is to be written. An error is one of randomness.
func Decide(s State) (Decision, error) {
	k, problem := readSecret(s.Secret)
	p := pass{State: s, kept: k, problem: problem}
	p.Memory = p.memory()
	d := Decision{Problem: problem, Memory: p.Memory}
	d.Signer, d.WakeAt = p.signer()
	if d.Signer != nil {
		d.Memory.signer = d.Signer
	}
	for _, a := range p.trusted() {
		d.Trusted = append(d.Trusted, a.pem()...)
	}
	if !s.Leads {
		return d, nil
	}
	if problem == "" {
		next, wakeAt, err := p.next()
		if err != nil {
			return Decision{}, err
		}
		if d.WakeAt = sooner(d.WakeAt, wakeAt); next != nil {
			d.Secret, err = next.data()
			return d, err
		}
	}
	d.ConfigMaps = p.toPublish()
	return d, nil
}

// pass is what there is to decide from.
type pass struct {
	State
	// kept is what the Secret holds, nothing where there is none or a problem with it.
	kept    kept
	problem string
}

// signer is who signs, nil where nobody may, and when that may be another. Whom the Secret names was
// published when it came to be named so. A process that knew another signer believes only what it has seen
// published itself: the Secret may be one from a backup. Who signed before goes on until the next one does,
// and where the Secret is gone or broken.
func (p pass) signer() (a *Authority, wakeAt time.Time) {
	before, named := p.Memory.signer.until(p.Now), p.kept.signing.until(p.Now)
	if named != nil {
		at := p.publishedAt(named, p.Memory.seen[sight{slot: slotTried, id: named.id()}].Add(lastTries))
		if p.Memory.signer == nil || p.Memory.signer.is(named) || !p.Now.Before(at) {
			return named, time.Time{}
		}
		wakeAt = at
	}
	if before == nil || !slices.ContainsFunc(p.Memory.known, before.is) {
		return nil, wakeAt
	}
	if at := p.trustedAt(before); p.Now.Before(at) {
		return nil, sooner(wakeAt, at)
	}
	return before, wakeAt
}

// trustedAt is from when on proxies trust who signed: by the Secret or, where that says nothing, by what this process
// sees published, or tries to publish as the leader. There may have been another Secret meanwhile. Of a ConfigMap that
// is gone pods keep what it said last, which this process need not have seen.
func (p pass) trustedAt(a *Authority) time.Time {
	if !p.unread() {
		return p.Now
	}
	if since, leads := p.Memory.seen[sight{slot: slotRestored, id: a.id()}]; leads {
		return p.publishedAt(a, since.Add(lastTries))
	}
	return p.Now.Add(propagation - p.publishedFor(a))
}

// unread reports whether there is no Secret, or one that cannot be read.
func (p pass) unread() bool { return p.Secret == nil || p.problem != "" }

// names reports whether a ConfigMap names an authority.
func names(data map[string]string, a *Authority) bool {
	return strings.Contains(data[FileAuthorities], string(a.pem()))
}

// next is what the Secret is to hold, nil where that is what it holds, and when to look again.
func (p pass) next() (next *kept, wakeAt time.Time, err error) {
	k := p.kept
	if k.signing == nil && k.next == nil {
		next, err := p.first()
		return next, wakeAt, err
	}
	if k.next == nil {
		if due := k.signing.Certificate.NotAfter.Add(-renewedBefore); p.Now.Before(due) {
			wakeAt = due
		} else {
			made, err := makeAuthority(p.Random, p.ServerName, p.Now)
			k.next = made
			return &k, wakeAt, err
		}
	} else if due := p.signsAt(); p.Now.Before(due) {
		wakeAt = due
	} else {
		return &kept{signing: k.next, former: k.formerly(k.signing)}, wakeAt, nil
	}
	if k.signing != nil && len(k.former) > 0 {
		due := p.Memory.seen[k.formerSight()].Add(formerFor)
		if !p.Now.Before(due) {
			k.former = nil
			return &k, time.Time{}, nil
		}
		wakeAt = sooner(wakeAt, due)
	}
	return nil, wakeAt, nil
}

// first is what a Secret that is not there is to hold. Where nobody trusts anybody yet the new authority
// signs at once. Otherwise proxies have to hear of it first, and trust those that are known meanwhile.
func (p pass) first() (*kept, error) {
	made, err := makeAuthority(p.Random, p.ServerName, p.Now)
	if err != nil {
		return nil, err
	}
	trusting := slices.ContainsFunc(slices.Collect(maps.Values(p.ConfigMaps)), func(data map[string]string) bool { return data != nil })
	if !trusting && len(p.Memory.known) == 0 {
		return &kept{signing: made}, nil
	}
	return &kept{next: made, former: p.known()}, nil
}

// known are the authorities that this process knew last and that did not end.
func (p pass) known() []*Authority {
	return slices.DeleteFunc(slices.Clone(p.Memory.known), func(a *Authority) bool { return a.until(p.Now) == nil })
}

// signsAt is from when on the next one signs, as far as one can see now.
func (p pass) signsAt() time.Time {
	last := p.Memory.seen[sight{slot: slotTried, id: p.kept.next.id()}].Add(lastTries)
	if p.kept.signing != nil {
		if end := p.kept.signing.Certificate.NotAfter.Add(-lastCall); last.Before(end) {
			last = end
		}
	}
	return p.publishedAt(p.kept.next, last)
}

// publishedAt is when an authority was published everywhere for long enough, as far as one can see now, or
// when that is waited for no longer.
func (p pass) publishedAt(a *Authority, last time.Time) time.Time {
	return sooner(p.Now.Add(propagation-p.publishedFor(a)), last)
}

// toPublish are the ConfigMaps that do not hold what they are to.
func (p pass) toPublish() map[string]map[string]string {
	trusted := p.trusted()
	if len(trusted) == 0 || p.Address == "" {
		return nil
	}
	var text strings.Builder
	for _, a := range trusted {
		text.Write(a.pem())
	}
	want := map[string]string{FileAuthorities: text.String(), FileAddress: p.Address}
	out := map[string]map[string]string{}
	for namespace, data := range p.ConfigMaps {
		if !maps.Equal(data, want) {
			out[namespace] = maps.Clone(want)
		}
	}
	return out
}

// trusted are the authorities of the Secret, or while that is not in order those that were known.
func (p pass) trusted() []*Authority {
	if p.problem != "" {
		return p.known()
	}
	return p.kept.all()
}

// sooner is the earlier of two times of which either may be none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
