// Package holdings keeps what a proxy was told, as it was told: so that the proxy can say what it has to
// whichever controller it reaches next, and serve it when it starts where none is.
//
// Its files, in the order in which to open them:
//
//   - holdings.go: Holdings, which take a transaction and answer it.
//   - read.go: a transaction, as far as this program knows its resources.
//   - snapshot.go: Holdings as the bytes of a file.
//
// Resources are kept as bytes, because fields that this program does not know are part of their version.
// What the proxy cannot use is refused alone and named in each answer until it is gone or another; what was
// told before under its name is used on.
package holdings

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/table"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// Holdings are what a proxy was told, by names on the stream (wire.NameOf). They are not safe for
// concurrent use.
type Holdings struct {
	position string
	// used are in the table. Removed are there as well, because a route or a listener whose next version
	// was refused still names them. Waiting are to be used as soon as what they name is there.
	used, removed, waiting map[string]copied
	// refused are all that are not used as they were told last, also those that wait.
	refused map[string]refusal
}

// copied is a resource as it came.
type copied struct {
	version, value string
}

// refusal is the version that was told last and is not used, and why.
type refusal struct{ version, reason string }

// New holds nothing.
func New() *Holdings {
	return &Holdings{used: map[string]copied{}, removed: map[string]copied{}, waiting: map[string]copied{}, refused: map[string]refusal{}}
}

// Take has a transaction applied, once and whole but for what is refused, and gives the answer to it.
func (h *Holdings) Take(r wire.Response, apply func(table.Changes) table.Result) wire.Request {
	answer := wire.Request{TypeURL: wire.TypeURL, Nonce: r.Nonce}
	if r.TypeURL != wire.TypeURL {
		answer.Error = wire.Refused([]wire.Refusal{{Reason: "type " + r.TypeURL + " is not known"}})
		return answer
	}
	for _, name := range r.Removed {
		if was, used := h.used[name]; used {
			h.removed[name] = was
		}
		h.forget(name)
	}
	read := h.read(r.Resources)
	h.settle(read, apply(table.Changes{Set: read.set, Removed: r.Removed}))
	h.position = r.Position
	answer.Error = wire.Refused(h.Refused())
	return answer
}

func (h *Holdings) forget(name string) {
	delete(h.used, name)
	delete(h.waiting, name)
	delete(h.refused, name)
}

// settle takes what the table made of a transaction.
func (h *Holdings) settle(t transaction, result table.Result) {
	for _, r := range result.Refused {
		came := t.came[r.Name]
		delete(t.came, r.Name)
		delete(h.waiting, r.Name)
		if errors.Is(r.Err, table.ErrMissing) {
			h.waiting[r.Name] = came
		}
		h.refused[r.Name] = refusal{came.version, r.Err.Error()}
	}
	for name, came := range t.came {
		h.forget(name)
		h.used[name] = came
	}
	for _, name := range result.Late {
		h.used[name] = h.waiting[name]
		delete(h.waiting, name)
		// What came after the one that waited may not have been read.
		if h.refused[name].version == h.used[name].version {
			delete(h.refused, name)
		}
	}
	for name := range h.removed {
		if _, again := h.used[name]; again || !result.Table.Has(name) {
			delete(h.removed, name)
		}
	}
}

// Position is that of the last transaction, empty before the first.
func (h *Holdings) Position() string { return h.position }

// Refused are all resources that are not used as they were told last, in the order of their names.
func (h *Holdings) Refused() (all []wire.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(h.refused)) {
		all = append(all, wire.Refusal{Name: name, Reason: h.refused[name].reason})
	}
	return all
}

// Ask is the first request of a stream. It names the versions that were told last, also those that were
// refused: they need not be told again, and must be named for the controller to say that they are gone.
func (h *Holdings) Ask(node string) wire.Request {
	versions := make(map[string]string, len(h.used)+len(h.refused))
	for name, c := range h.used {
		versions[name] = c.version
	}
	for name, r := range h.refused {
		versions[name] = r.version
	}
	return wire.Request{Node: node, TypeURL: wire.TypeURL, Versions: versions}
}

// All is the transaction that would bring a proxy that holds nothing to what this one uses, in the order
// of names.
func (h *Holdings) All() wire.Response {
	all := wire.Response{Position: h.position, TypeURL: wire.TypeURL}
	all.Resources = slices.Grow(all.Resources, len(h.used)+len(h.removed))
	for _, there := range []map[string]copied{h.used, h.removed} {
		for name, c := range there {
			all.Resources = append(all.Resources, wire.Delivery{Name: name, Version: c.version, TypeURL: wire.TypeURL, Value: []byte(c.value)})
		}
	}
	slices.SortFunc(all.Resources, func(a, b wire.Delivery) int { return strings.Compare(a.Name, b.Name) })
	return all
}
