package authority

import "time"

// Memory is what a process remembers between two decisions. One that begins has none, and counts each time
// anew: later, never sooner.
type Memory struct {
	// signer is who signed last, with its key, nil where nobody did.
	signer *Authority
	// known are the authorities of the last Secret that could be read.
	known []*Authority
	// seen is since when something is as it is, by our own clock.
	seen map[sight]time.Time
}

// sight is that an authority stands somewhere.
type sight struct {
	// namespace is that of a ConfigMap which names it; otherwise slot is how it stands in the Secret.
	namespace, slot string
	id              string
}

// slotTried is that of an authority which this process tries to publish, as the leader, or another one did
// before it let it sign.
const slotTried = "tried"

// slotRestored is that of who signed before, whom this process publishes as the leader while no Secret says anybody.
const slotRestored = "restored"

// memory is what this pass saw, beside what was seen before and is still so.
func (p pass) memory() Memory {
	out := Memory{signer: p.Memory.signer, known: p.Memory.known, seen: map[sight]time.Time{}}
	if !p.unread() {
		out.known = p.kept.all()
	}
	see := func(s sight) {
		out.seen[s] = p.Now
		if before, seen := p.Memory.seen[s]; seen && before.Before(p.Now) {
			out.seen[s] = before
		}
	}
	for namespace, data := range p.ConfigMaps {
		for _, a := range out.known {
			if names(data, a) {
				see(sight{namespace: namespace, id: a.id()})
			}
		}
	}
	if p.kept.signing != nil {
		see(sight{slot: slotTried, id: p.kept.signing.id()})
	}
	if p.kept.next != nil && p.Leads {
		see(sight{slot: slotTried, id: p.kept.next.id()})
	}
	if p.unread() && p.Memory.signer != nil && p.Leads {
		see(sight{slot: slotRestored, id: p.Memory.signer.id()})
	}
	if p.kept.signing != nil && len(p.kept.former) > 0 {
		see(p.kept.formerSight())
	}
	return out
}

// publishedFor is for how long every ConfigMap was seen to name an authority. Where there is no namespace
// with proxies, nobody has to hear of it.
func (p pass) publishedFor(a *Authority) time.Duration {
	shortest := propagation
	for namespace := range p.ConfigMaps {
		since, seen := p.Memory.seen[sight{namespace: namespace, id: a.id()}]
		if !seen {
			return 0
		}
		shortest = min(shortest, p.Now.Sub(since))
	}
	return shortest
}
