package controller

import (
	"strings"
	"sync"
)

// internedMap is a map whose keys and values thousands of objects have in pool.
func internedMap(m map[string]string) map[string]string {
	out := internedKeys(m)
	for key, value := range out {
		out[key] = interned(value)
	}
	return out
}

// internedKeys is a map whose keys thousands of objects have in pool.
func internedKeys(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[interned(key)] = value
	}
	return out
}

// shared is a map with no more than these keys, of which thousands of objects have the same
// one: nobody may write to it.
func shared(m map[string]string, keys ...string) map[string]string {
	var what strings.Builder
	for _, key := range keys {
		if value, ok := m[key]; ok {
			what.WriteString(key + "=" + value + "\x00")
		}
	}
	return sets.of(what.String(), func() map[string]string { return only(m, keys...) })
}

// interned is the copy of a string that other objects have too.
func interned(s string) string { return texts.of(s, func() string { return s }) }

var (
	texts = pool[string]{all: map[string]string{}}
	sets  = pool[map[string]string]{all: map[string]map[string]string{}}
)

// pool holds one copy of each value that objects were seen to have, by what is in it.
type pool[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

// mostInterned bounds what is held of objects that are long gone: then all begins anew.
const mostInterned = 1 << 15

func (p *pool[T]) of(what string, made func() T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.all[what]; ok {
		return one
	}
	if len(p.all) >= mostInterned {
		clear(p.all)
	}
	one := made()
	p.all[what] = one
	return one
}
