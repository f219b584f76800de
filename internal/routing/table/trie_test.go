package table

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTrie: a trie holds what a map holds, whatever the hashes, and those before it do not change.
func TestTrie(t *testing.T) {
	hashes := map[string]func(string) uint64{
		"spread":      hashOf,
		"all equal":   func(string) uint64 { return 7 },
		"equal below": func(s string) uint64 { return hashOf(s) & 3 << lastShift },
		"equal above": func(s string) uint64 { return hashOf(s) &^ (1<<lastShift - 1) },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var trie trie[int]
				want := map[string]int{}
				for i := range rapid.IntRange(1, 200).Draw(t, "changes") {
					before, was := trie, maps.Clone(want)
					key := fmt.Sprint("key", rapid.IntRange(0, 40).Draw(t, "key"))
					if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
						trie = trie.without(hash(key), key)
						delete(want, key)
					} else {
						trie = trie.put(hash(key), key, i)
						want[key] = i
					}
					holds(t, trie, want, hash)
					holds(t, before, was, hash)
				}
				for key := range want {
					trie = trie.without(hash(key), key)
				}
				if trie.root != nil || trie.size != 0 {
					t.Fatalf("%d keys are left in the trie", trie.size)
				}
			})
		})
	}
}

func holds(t *rapid.T, trie trie[int], want map[string]int, hash func(string) uint64) {
	if got := maps.Collect(trie.all()); !maps.Equal(got, want) || trie.size != len(want) {
		t.Fatalf("got %v (%d), want %v", got, trie.size, want)
	}
	for i := range 41 {
		key := fmt.Sprint("key", i)
		got, found := trie.get(hash(key), key)
		if value, there := want[key]; found != there || got != value {
			t.Fatalf("%s: got %d, %t", key, got, found)
		}
	}
}

// TestTrieStays small: what was put and removed leaves the trie as if it had never been there.
func TestTrieStaysSmall(t *testing.T) {
	nodes := func(t trie[int]) (n int) {
		var count func(*node[int])
		count = func(at *node[int]) {
			if n++; at != nil {
				for _, below := range at.below {
					count(below)
				}
			}
		}
		count(t.root)
		return n
	}
	var trie trie[int]
	for i := range 10 {
		trie = trie.put(hashOf(fmt.Sprint(i)), fmt.Sprint(i), i)
	}
	before := nodes(trie)
	for i := range 1000 {
		trie = trie.put(hashOf(fmt.Sprint("x", i)), fmt.Sprint("x", i), i)
	}
	for i := range 1000 {
		trie = trie.without(hashOf(fmt.Sprint("x", i)), fmt.Sprint("x", i))
	}
	if got := nodes(trie); got != before {
		t.Errorf("there are %d nodes, and were %d", got, before)
	}
	var stop []int
	for _, value := range trie.all() {
		if stop = append(stop, value); len(stop) == 3 {
			break
		}
	}
	if slices.Sort(stop); len(slices.Compact(stop)) != 3 {
		t.Errorf("got %v of the values, and wanted three", stop)
	}
}

// TestStore: what is removed stays for as long as it is named.
func TestStore(t *testing.T) {
	var s store[string]
	at := func() (string, bool) { return s.get(hashOf("a"), "a") }
	s.set("a", "one")
	s.use("a", 1)
	s.remove("a")
	if value, found := at(); value != "one" || !found || s.has("a") {
		t.Errorf("got %q, %t, to be named %t; want one, that may not be named any more", value, found, s.has("a"))
	}
	before := s
	s.use("a", -1)
	if _, found := at(); found || s.entries.size != 0 {
		t.Error("it is still there, although nothing names it")
	}
	if _, found := before.get(hashOf("a"), "a"); !found {
		t.Error("the store before changed")
	}
	s = before
	s.set("a", "two")
	s.use("a", -1)
	if value, found := at(); value != "two" || !found || !s.has("a") {
		t.Errorf("got %q, %t; want two, which was set after it was removed", value, found)
	}
	s.remove("a")
	s.use("b", 1)
	if _, found := s.get(hashOf("b"), "b"); found || s.has("b") {
		t.Error("b is there because it is named")
	}
	s.use("b", -1)
	if s.entries.size != 0 {
		t.Errorf("%d are left", s.entries.size)
	}
}
