package controller

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Progress is how many of a replica's proxies have what was made of a Gateway, and how many there are.
type Progress struct {
	Gateway    types.NamespacedName
	Generation int64
	Have, All  int
}

// Progress says, as JSON, how far the proxies of this replica are, for a leader elsewhere.
func (a *Acknowledgements) Progress() ([]byte, error) { return json.Marshal(a.progress()) }

// Heard takes what another replica says of its proxies, nil when it says nothing any more. What cannot be read is
// as good as nothing: a replica of another version may say more.
func (a *Acknowledgements) Heard(replica uint64, message []byte) {
	var says []Progress
	if message != nil && json.Unmarshal(message, &says) != nil {
		says = nil
	}
	a.mu.Lock()
	before := a.elsewhere[replica]
	if a.elsewhere[replica] = says; says == nil {
		delete(a.elsewhere, replica)
	}
	changed := a.gatewayChanged
	a.mu.Unlock()
	for _, p := range append(slices.Clone(before), says...) {
		if !slices.Contains(before, p) || !slices.Contains(says, p) {
			changed(p.Gateway)
		}
	}
}

// OfOthers is how many proxies of other replicas have what was made of a Gateway's generation, and how many there
// are: who has an older one has not this one.
func (a *Acknowledgements) OfOthers(gateway types.NamespacedName, generation int64) (have, all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, says := range a.elsewhere {
		for _, p := range says {
			if p.Gateway != gateway {
				continue
			}
			if all += p.All; p.Generation >= generation {
				have += p.Have
			}
		}
	}
	return have, all
}
