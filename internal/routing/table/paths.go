package table

import (
	"slices"
	"strings"
	"unique"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// paths are the candidates for a hostname, or for all below an element of their paths. They do not change: with and
// without give others.
type paths struct {
	// only is the one that there is, tree has several: one is nil.
	only *candidate
	tree *tree
}

// tree is one of elements of paths: what a prefix stands for is below it.
type tree struct {
	// exact are those for just the path of this place, prefix those for all below it too, both in
	// order of precedence.
	exact, prefix []*candidate
	// below is by the next element.
	below trie[paths]
}

// find gives the first candidate that takes the request: an exact path before the longest prefix.
// What is left of the path begins with a slash, or is empty.
func (p paths) find(left string, r *Request, several bool) *candidate {
	c := p.only
	switch {
	case p.tree != nil:
		return p.tree.find(left, r, several)
	case c != nil && c.fits(left, len(r.Path)-len(left)) && c.takes(r, several):
		return c
	}
	return nil
}

func (n *tree) find(left string, r *Request, several bool) *candidate {
	list := n.exact
	if left != "" {
		list = nil
		if n.below.size > 0 {
			element, rest := cut(left)
			if below, found := n.below.get(hashOf(element), element); found {
				if c := below.find(rest, r, several); c != nil {
					return c
				}
			}
		}
	}
	if c := first(list, r, several); c != nil {
		return c
	}
	return first(n.prefix, r, several)
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

// fits reports whether the candidate asks for a path that begins with the first bytes of its own, as many as from says, and
// goes on with what is left.
func (c *candidate) fits(left string, from int) bool {
	rest, found := strings.CutPrefix(left, c.path[from:])
	return found && (rest == "" || !c.exact && rest[0] == '/')
}

// with is what they are with one more.
func (p paths) with(c *candidate) paths { return p.withBelow(c, 0) }

// withBelow is with for the place to which the first bytes of the candidate's path lead, as many as from says.
func (p paths) withBelow(c *candidate, from int) paths {
	switch {
	case p.tree != nil:
		return paths{tree: p.tree.with(c, from)}
	case p.only != nil:
		return paths{tree: new(tree).with(p.only, from).with(c, from)}
	}
	return paths{only: c}
}

func (n *tree) with(c *candidate, from int) *tree {
	out := *n
	switch left := c.path[from:]; {
	case left != "":
		element, _ := cut(left)
		hash := hashOf(element)
		below, _ := n.below.get(hash, element)
		// Many hosts have the same elements.
		out.below = n.below.put(hash, unique.Make(element).Value(), below.withBelow(c, from+1+len(element)))
	case c.exact:
		out.exact = insert(n.exact, c)
	default:
		out.prefix = insert(n.prefix, c)
	}
	return &out
}

// without is what they are without one that is there.
func (p paths) without(c *candidate) paths { return p.withoutBelow(c, 0) }

func (p paths) withoutBelow(c *candidate, from int) paths {
	if p.tree == nil {
		return paths{}
	}
	n := *p.tree
	switch left := c.path[from:]; {
	case left != "":
		element, _ := cut(left)
		hash := hashOf(element)
		below, _ := n.below.get(hash, element)
		if below = below.withoutBelow(c, from+1+len(element)); below.isEmpty() {
			n.below = n.below.without(hash, element)
		} else {
			n.below = n.below.put(hash, unique.Make(element).Value(), below)
		}
	case c.exact:
		n.exact = remove(n.exact, c)
	default:
		n.prefix = remove(n.prefix, c)
	}
	if only := n.only(); only != nil {
		return paths{only: only}
	}
	return paths{tree: &n}
}

// only is the candidate of which there is no other, nil where there are several.
func (n *tree) only() *candidate {
	here := len(n.exact) + len(n.prefix)
	switch {
	case here == 1 && n.below.size == 0:
		return slices.Concat(n.exact, n.prefix)[0]
	case here == 0 && n.below.size == 1:
		for _, below := range n.below.all() {
			return below.only
		}
	}
	return nil
}

func (p paths) isEmpty() bool { return p.only == nil && p.tree == nil }

func insert(list []*candidate, c *candidate) []*candidate {
	at, _ := slices.BinarySearchFunc(list, c, compare)
	return with(list, at, c)
}

func remove(list []*candidate, c *candidate) []*candidate {
	at := slices.Index(list, c)
	return without(list, at)
}

// each visits all candidates.
func (p paths) each(visit func(*candidate)) {
	if p.only != nil {
		visit(p.only)
	}
	if p.tree == nil {
		return
	}
	for _, c := range slices.Concat(p.tree.exact, p.tree.prefix) {
		visit(c)
	}
	for _, below := range p.tree.below.all() {
		below.each(visit)
	}
}
