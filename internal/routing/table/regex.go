package table

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// maxProgram bounds about how many instructions of a program an expression takes, because a{1000}b{1000}c{1000} is short,
// too.
const maxProgram = 2048

// maxWork bounds what the expressions that are tried for a request may take: instructions for each byte of a value. It is
// 20 expressions of 25 instructions on 4 KiB of cookies, or one of 500 on as much: some hundredths of a second of CPU.
const maxWork = 1 << 21

// compile makes an expression of RE2 that a whole value must match, and says what it takes for each byte of it.
func compile(expression string) (compiled *regexp.Regexp, cost int, err error) {
	if len(expression) > wire.MaxExpression {
		return nil, 0, fmt.Errorf("the expression has %d bytes, more than %d", len(expression), wire.MaxExpression)
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
