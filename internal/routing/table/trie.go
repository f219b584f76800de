package table

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
)

// Of a hash, each level of a trie takes levelBits; what is below lastShift has the same hash.
const (
	levelBits = 5
	lastShift = 60
)

// seed is another in each process, so that nobody can choose names that all have the same hash.
var seed = maphash.MakeSeed()

func hashOf(s string) uint64 { return maphash.String(seed, s) }

// trie is a map that does not change: put and without give another, which shares most with it. It is
// a hash array mapped trie (Bagwell, Ideal Hash Trees, 2001) in which entries and what is below stand
// apart. The zero trie is empty.
type trie[V any] struct {
	root *node[V]
	size int
}

type node[V any] struct {
	// leaves and nodes have a bit for each entry, and for each node below.
	leaves, nodes uint32
	entries       []entry[V]
	below         []*node[V]
}

type entry[V any] struct {
	hash  uint64
	key   string
	value V
}

// lone is a node with its one entry, side by side: many tries have no more.
type lone[V any] struct {
	node[V]
	room [1]entry[V]
}

func newLone[V any](bit uint32, e entry[V]) *node[V] {
	l := &lone[V]{room: [1]entry[V]{e}}
	l.leaves, l.entries = bit, l.room[:]
	return &l.node
}

// bitOf is the bit for a hash at a level.
func bitOf(hash uint64, shift int) uint32 { return 1 << (hash >> shift & (1<<levelBits - 1)) }

// rank is how many bits of the map are before that bit.
func rank(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

// get gives the value of the key, whose hash is given. It does not allocate.
func (t trie[V]) get(hash uint64, key string) (value V, found bool) {
	if v := t.at(hash, key); v != nil {
		return *v, true
	}
	return value, false
}

// at is where the value of the key is, whose hash is given; nil where there is none. It is not to be changed.
func (t trie[V]) at(hash uint64, key string) *V {
	n := t.root
	for shift := 0; n != nil && shift <= lastShift; shift += levelBits {
		bit := bitOf(hash, shift)
		switch {
		case n.leaves&bit != 0:
			e := &n.entries[rank(n.leaves, bit)]
			if e.hash == hash && e.key == key {
				return &e.value
			}
			return nil
		case n.nodes&bit == 0:
			return nil
		}
		n = n.below[rank(n.nodes, bit)]
	}
	if n == nil {
		return nil
	}
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i].value
		}
	}
	return nil
}

// put is the trie with that value of the key.
func (t trie[V]) put(hash uint64, key string, value V) trie[V] {
	root, grown := t.root.put(entry[V]{hash, key, value}, 0)
	if grown {
		t.size++
	}
	return trie[V]{root, t.size}
}

func (n *node[V]) put(e entry[V], shift int) (_ *node[V], grown bool) {
	if n == nil {
		n = &node[V]{}
	}
	c := *n
	if shift > lastShift {
		at := slices.IndexFunc(n.entries, func(o entry[V]) bool { return o.key == e.key })
		if at < 0 {
			c.entries = with(n.entries, len(n.entries), e)
			return &c, true
		}
		c.entries = slices.Clone(n.entries)
		c.entries[at] = e
		return &c, false
	}
	bit := bitOf(e.hash, shift)
	at := rank(n.leaves, bit)
	switch {
	case n.nodes&bit != 0:
		under := rank(n.nodes, bit)
		c.below = slices.Clone(n.below)
		c.below[under], grown = n.below[under].put(e, shift+levelBits)
		return &c, grown
	case len(n.below) == 0 && (n.leaves == 0 || n.leaves == bit && n.entries[0].key == e.key):
		return newLone(bit, e), n.leaves == 0
	case n.leaves&bit == 0:
		c.leaves |= bit
		c.entries = with(n.entries, at, e)
		return &c, true
	case n.entries[at].hash == e.hash && n.entries[at].key == e.key:
		c.entries = slices.Clone(n.entries)
		c.entries[at] = e
		return &c, false
	}
	// Two keys at one place go below it.
	below, _ := (*node[V])(nil).put(n.entries[at], shift+levelBits)
	below, _ = below.put(e, shift+levelBits)
	c.leaves, c.entries = n.leaves&^bit, without(n.entries, at)
	c.nodes, c.below = n.nodes|bit, with(n.below, rank(n.nodes, bit), below)
	return &c, true
}

// without is the trie without the key.
func (t trie[V]) without(hash uint64, key string) trie[V] {
	root, shrunk := t.root.without(hash, key, 0)
	if shrunk {
		t.size--
	}
	return trie[V]{root, t.size}
}

func (n *node[V]) without(hash uint64, key string, shift int) (_ *node[V], shrunk bool) {
	if n == nil {
		return nil, false
	}
	bit := bitOf(hash, shift)
	at := rank(n.leaves, bit)
	switch {
	case shift > lastShift:
		at = slices.IndexFunc(n.entries, func(e entry[V]) bool { return e.key == key })
		if at < 0 {
			return n, false
		}
		return (&node[V]{entries: without(n.entries, at)}).orNil(), true
	case n.nodes&bit != 0:
		return n.withoutBelow(hash, key, shift)
	case n.leaves&bit == 0 || n.entries[at].hash != hash || n.entries[at].key != key:
		return n, false
	}
	c := *n
	c.leaves, c.entries = n.leaves&^bit, without(n.entries, at)
	return c.orNil(), true
}

func (n *node[V]) withoutBelow(hash uint64, key string, shift int) (_ *node[V], shrunk bool) {
	bit := bitOf(hash, shift)
	under := rank(n.nodes, bit)
	below, shrunk := n.below[under].without(hash, key, shift+levelBits)
	if !shrunk {
		return n, false
	}
	c := *n
	if below != nil && (len(below.below) > 0 || len(below.entries) > 1) {
		c.below = slices.Clone(n.below)
		c.below[under] = below
		return &c, true
	}
	c.nodes, c.below = n.nodes&^bit, without(n.below, under)
	if below != nil {
		// What is alone below stands here again.
		c.leaves, c.entries = n.leaves|bit, with(n.entries, rank(n.leaves, bit), below.entries[0])
	}
	return c.orNil(), true
}

func (n *node[V]) orNil() *node[V] {
	if len(n.entries)+len(n.below) == 0 {
		return nil
	}
	return n
}

// all gives what is in the trie, in no order.
func (t trie[V]) all() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { t.root.each(yield) }
}

func (n *node[V]) each(yield func(string, V) bool) bool {
	if n == nil {
		return true
	}
	for _, e := range n.entries {
		if !yield(e.key, e.value) {
			return false
		}
	}
	for _, below := range n.below {
		if !below.each(yield) {
			return false
		}
	}
	return true
}

// with is another list, in which e stands at that place.
func with[E any](list []E, at int, e E) []E {
	out := make([]E, len(list)+1)
	copy(out, list[:at])
	out[at] = e
	copy(out[at+1:], list[at:])
	return out
}

// without is another list, in which what stands at that place is missing, nil where nothing is left.
func without[E any](list []E, at int) []E {
	if len(list) == 1 {
		return nil
	}
	out := make([]E, len(list)-1)
	copy(out, list[:at])
	copy(out[at:], list[at+1:])
	return out
}
