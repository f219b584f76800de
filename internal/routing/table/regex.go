package table

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Bounds of an expression: its bytes, and about how many instructions of a program it takes, because
// a{1000}b{1000}c{1000} is short, too.
const (
	maxRegex   = 1024
	maxProgram = 2048
)

// compile makes an expression of RE2 that a whole value must match.
func compile(expression string) (*regexp.Regexp, error) {
	if len(expression) > maxRegex {
		return nil, fmt.Errorf("the expression has %d bytes, more than %d", len(expression), maxRegex)
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if program(tree) > maxProgram {
		return nil, fmt.Errorf("the expression %q repeats too much", expression)
	}
	// The tree's own text is closed in itself, as an expression such as `\Qa` is not.
	return regexp.Compile(`\A(?:` + tree.String() + `)\z`)
}

// program is about how many instructions an expression takes, or maxProgram+1 where they are more.
func program(tree *syntax.Regexp) int {
	n := 1
	switch tree.Op {
	case syntax.OpLiteral:
		n = len(tree.Rune)
	case syntax.OpConcat, syntax.OpRepeat:
		n = 0
	}
	for _, sub := range tree.Sub {
		n += program(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return min(n, maxProgram+1)
}
