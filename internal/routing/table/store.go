package table

// store holds what others name. What is removed while it is named stays until nothing names it any
// more: a route whose next version was refused goes on with the backends of the one before.
type store[V any] struct{ entries trie[held[V]] }

type held[V any] struct {
	value V
	// there says whether there is a value, gone whether it was removed since.
	there, gone bool
	// users is how many name it.
	users int
}

// get gives what is there, also where it was removed and is still named.
func (s store[V]) get(hash uint64, name string) (V, bool) {
	h, _ := s.entries.get(hash, name)
	return h.value, h.there
}

// has reports whether it is there and may be named by what comes.
func (s store[V]) has(name string) bool {
	h, _ := s.entries.get(hashOf(name), name)
	return h.there && !h.gone
}

func (s *store[V]) set(name string, value V) {
	hash := hashOf(name)
	h, _ := s.entries.get(hash, name)
	h.value, h.there, h.gone = value, true, false
	s.keep(hash, name, h)
}

func (s *store[V]) remove(name string) {
	hash := hashOf(name)
	h, _ := s.entries.get(hash, name)
	h.gone = h.there
	s.keep(hash, name, h)
}

// use counts one who names it, or with -1 one who does not any more.
func (s *store[V]) use(name string, by int) {
	hash := hashOf(name)
	h, _ := s.entries.get(hash, name)
	h.users += by
	s.keep(hash, name, h)
}

func (s *store[V]) keep(hash uint64, name string, h held[V]) {
	if h.gone && h.users == 0 {
		h = held[V]{}
	}
	if !h.there && h.users == 0 {
		s.entries = s.entries.without(hash, name)
		return
	}
	s.entries = s.entries.put(hash, name, h)
}
