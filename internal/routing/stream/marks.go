package stream

import (
	"cmp"
	"slices"
)

// marks are the positions at which streams are, in ascending order. A stream moves to the head only.
type marks []mark

// mark is a position, and how many streams are there.
type mark struct {
	at      uint64
	streams int
}

func (m marks) find(at uint64) (index int, found bool) {
	return slices.BinarySearchFunc(m, at, func(m mark, at uint64) int { return cmp.Compare(m.at, at) })
}

// any reports whether a stream is at a position that is not before one and is before the other.
func (m marks) any(from, before uint64) bool {
	i, _ := m.find(from)
	return i < len(m) && m[i].at < before
}

func (m *marks) enter(at uint64) {
	i, found := m.find(at)
	if !found {
		*m = slices.Insert(*m, i, mark{at: at})
	}
	(*m)[i].streams++
}

func (m *marks) leave(at uint64) {
	i, found := m.find(at)
	if !found {
		return
	}
	if (*m)[i].streams--; (*m)[i].streams == 0 {
		*m = slices.Delete(*m, i, i+1)
	}
}
