package table

import (
	"slices"
	"strings"
	"unique"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// paths are the candidates for a hostname, as a tree of the elements of their paths: what a prefix
// stands for is below it. It does not change: change gives another.
type paths struct {
	// exact are those for just the path of this place, prefix those for all below it too, both in
	// order of precedence.
	exact, prefix []*candidate
	// below is by the next element.
	below trie[paths]
}

// find gives the first candidate that takes the request: an exact path before the longest prefix.
// What is left of the path begins with a slash, or is empty.
func (p *paths) find(left string, r *Request, several bool) *candidate {
	list := p.exact
	if left != "" {
		list = nil
		if p.below.size > 0 {
			element, rest := cut(left)
			if below := p.below.at(hashOf(element), element); below != nil {
				if c := below.find(rest, r, several); c != nil {
					return c
				}
			}
		}
	}
	if c := first(list, r, several); c != nil {
		return c
	}
	return first(p.prefix, r, several)
}

func first(list []*candidate, r *Request, several bool) *candidate {
	for _, c := range list {
		if c.takes(r, several) {
			return c
		}
	}
	return nil
}

// cut gives the first element of a path, and what is left after it.
func cut(path string) (element, left string) {
	path = path[1:]
	if at := strings.IndexByte(path, '/'); at >= 0 {
		return path[:at], path[at:]
	}
	return path, ""
}

// prefixOf is what a path must be, or begin with before a slash: a slash at a prefix's end counts for
// nothing.
func prefixOf(m *wire.Match) string { return strings.TrimSuffix(m.Path, "/") }

// fits reports whether the path is as the match asks for.
func fits(m *wire.Match, path string) bool {
	if m.PathType == wire.Exact {
		return m.Path == path
	}
	rest, found := strings.CutPrefix(path, prefixOf(m))
	return found && (rest == "" || rest[0] == '/')
}

// change is what the tree is after a change of the list to which the candidate belongs.
func (p paths) change(c *candidate, do func([]*candidate, *candidate) []*candidate) paths {
	if c.match.PathType == wire.Exact {
		return p.changeAt(c.match.Path, func(p *paths) { p.exact = do(p.exact, c) })
	}
	return p.changeAt(prefixOf(c.match), func(p *paths) { p.prefix = do(p.prefix, c) })
}

func (p paths) changeAt(left string, do func(*paths)) paths {
	if left == "" {
		do(&p)
		return p
	}
	element, rest := cut(left)
	hash := hashOf(element)
	below, _ := p.below.get(hash, element)
	if below = below.changeAt(rest, do); below.isEmpty() {
		p.below = p.below.without(hash, element)
	} else {
		// Many hosts have the same elements.
		p.below = p.below.put(hash, unique.Make(element).Value(), below)
	}
	return p
}

func (p *paths) isEmpty() bool { return len(p.exact)+len(p.prefix)+p.below.size == 0 }

// insert is the list with the candidate. One alone is in its own memory: most lists are so.
func insert(list []*candidate, c *candidate) []*candidate {
	if len(list) == 0 {
		return c.alone[:]
	}
	at, _ := slices.BinarySearchFunc(list, c, compare)
	return with(list, at, c)
}

func remove(list []*candidate, c *candidate) []*candidate {
	at := slices.Index(list, c)
	return without(list, at)
}

// each visits all candidates of the tree.
func (p *paths) each(visit func(*candidate)) {
	for _, c := range p.exact {
		visit(c)
	}
	for _, c := range p.prefix {
		visit(c)
	}
	for _, below := range p.below.all() {
		below.each(visit)
	}
}
