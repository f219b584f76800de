package wire

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// MaxExpression bounds a regular expression, in bytes.
const MaxExpression = 1024

// maxProgram bounds about how many instructions of a program an expression takes, because a{1000}b{1000}c{1000} is short,
// too.
const maxProgram = 2048

// CompileExpression makes an expression of RE2 that a whole value must match, and says what it takes for each byte of it.
func CompileExpression(expression string) (compiled *regexp.Regexp, cost int, err error) {
	if len(expression) > MaxExpression {
		return nil, 0, fmt.Errorf("the expression has %d bytes, more than %d", len(expression), MaxExpression)
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	if cost = program(tree); cost > maxProgram {
		return nil, 0, fmt.Errorf("the expression %q repeats too much", expression)
	}
	// The tree's own text is closed in itself, as an expression such as `\Qa` is not.
	compiled, err = regexp.Compile(`\A(?:` + tree.String() + `)\z`)
	return compiled, cost, err
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
