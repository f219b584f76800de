package analysis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/overloads"
)

const (
	// costliest is what the evaluation of a condition may cost for one value, in CEL's units: some
	// thousand comparisons. A loop within a loop costs more.
	costliest = 10_000
	// costliestOfAll is what it may cost for all values of a measurement: fifty comparisons for
	// each of mostValues.
	costliestOfAll = 100_000
	// lookEvery is after how many rounds of a loop the deadline is looked at.
	lookEvery = 100
	// deepest is how deep a condition may be nested.
	deepest = 50
)

// fulfilled reports whether a value is as it should be, or why that cannot be told. It ends with
// the context, and is for one goroutine.
type fulfilled func(ctx context.Context, value float64) (bool, error)

// condition is what a text says of the values of one measurement: a comparison with a number,
// or a CEL expression of value.
func condition(text string) (fulfilled, error) {
	if compare, ok := comparison(text); ok {
		return func(_ context.Context, value float64) (bool, error) { return compare(value), nil }, nil
	}
	return expression(text)
}

// comparison is one with a number, such as "< 0.01". NaN fulfils none but !=.
func comparison(text string) (func(float64) bool, bool) {
	operator := strings.TrimRight(text, "-0123456789.e ")
	limit, err := strconv.ParseFloat(strings.TrimSpace(text[len(operator):]), 64)
	compare := map[string]func(a, b float64) bool{
		"<": func(a, b float64) bool { return a < b }, "<=": func(a, b float64) bool { return a <= b },
		">": func(a, b float64) bool { return a > b }, ">=": func(a, b float64) bool { return a >= b },
		"==": func(a, b float64) bool { return a == b }, "!=": func(a, b float64) bool { return a != b },
	}[operator]
	if err != nil || compare == nil {
		return nil, false
	}
	return func(v float64) bool { return compare(v, limit) }, true
}

// language has value, which is dynamic so that it compares with 1 as with 1.0. It has no
// matches: CEL does not count what it costs to compile a pattern, and numbers need none.
var language = sync.OnceValues(func() (*cel.Env, error) {
	without := env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(overloads.Matches))
	return cel.NewCustomEnv(cel.StdLib(cel.StdLibSubset(without)), cel.Variable("value", cel.DynType), cel.ParserRecursionLimit(deepest))
})

// expression is one of CEL, such as "value < 0.01 || value > 100".
func expression(text string) (fulfilled, error) {
	dialect, err := language()
	if err != nil {
		return nil, err
	}
	parsed, issues := dialect.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("success: %q is neither a comparison and a number, such as '< 0.01', nor an expression of value: %s", text, firstOf(issues))
	}
	if !parsed.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("success: %q gives %s, and not whether value is as it should be", text, parsed.OutputType())
	}
	program, err := dialect.Program(parsed, cel.CostLimit(costliest), cel.InterruptCheckFrequency(lookEvery))
	if err != nil {
		return nil, fmt.Errorf("success: %w", err)
	}
	left := uint64(costliestOfAll)
	return func(ctx context.Context, value float64) (bool, error) {
		result, details, err := program.ContextEval(ctx, map[string]any{"value": value})
		if err != nil {
			return false, fmt.Errorf("success: %w", err)
		}
		cost := *details.ActualCost()
		if cost > left {
			return false, fmt.Errorf("success: for all values it costs more than %d: shorten it, or aggregate the values", costliestOfAll)
		}
		left -= cost
		ok, isBool := result.Value().(bool)
		if !isBool {
			return false, errors.New("success: it gives neither true nor false")
		}
		return ok, nil
	}, nil
}

// firstOf is what is wrong first, in a line.
func firstOf(issues *cel.Issues) string {
	if all := issues.Errors(); len(all) > 0 {
		return all[0].Message
	}
	return issues.Err().Error()
}
