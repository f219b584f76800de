package holdings

import (
	"fmt"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// transaction is what came, each name once: decoded, and as it came.
type transaction struct {
	set  []wire.Resource
	came map[string]copied
}

// read decodes what was delivered, and refuses what cannot be: of several of one name all but the last are
// passed over.
func (h *Holdings) read(all []wire.Delivery) transaction {
	last := make(map[string]int, len(all))
	for i, d := range all {
		last[d.Name] = i
	}
	t := transaction{came: make(map[string]copied, len(last))}
	for i, d := range all {
		if last[d.Name] != i {
			continue
		}
		// The message that the value is part of is not to stay for it. The texts of the resource are part of this.
		value := string(d.Value)
		r, err := decode(d, value)
		if err != nil {
			h.refused[d.Name] = refusal{d.Version, err.Error()}
			continue
		}
		t.set = append(t.set, r)
		t.came[d.Name] = copied{d.Version, value}
	}
	return t
}

// decode gives the resource, or why this program cannot know what it is.
func decode(d wire.Delivery, value string) (wire.Resource, error) {
	if d.TypeURL != wire.TypeURL {
		return wire.Resource{}, fmt.Errorf("type %q is not known", d.TypeURL)
	}
	r, err := wire.Decode(value)
	if err != nil {
		return wire.Resource{}, err
	}
	if name := wire.NameOf(r); name != d.Name {
		return wire.Resource{}, fmt.Errorf("it is %q", name)
	}
	return r, nil
}
