package controller

import "sync"

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

// pool holds one copy of each string that objects were seen to have.
var pool = struct {
	sync.Mutex
	all map[string]string
}{all: map[string]string{}}

// mostInterned bounds what is held of objects that are long gone: then all begins anew.
const mostInterned = 1 << 15

// interned is the copy of a string that other objects have too.
func interned(s string) string {
	pool.Lock()
	defer pool.Unlock()
	if one, ok := pool.all[s]; ok {
		return one
	}
	if len(pool.all) >= mostInterned {
		clear(pool.all)
	}
	pool.all[s] = s
	return s
}
