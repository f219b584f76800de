package attaching

import (
	"slices"
	"strings"
)

// expectation is a fault that is known and not mended yet.
type expectation struct {
	number int
	// mild is whether the play goes on: nothing else comes of it.
	mild bool
	is   func(fault string) bool
}

// expected are faults that are known and not mended yet, each by a number and by what the
// audit says of it. The list is to be emptied.
var expected []expectation

// expectedBy is the fault that was found, nil where it is not known.
func expectedBy(fault string) *expectation {
	for i, e := range expected {
		if e.is(fault) {
			return &expected[i]
		}
	}
	return nil
}

// has is whether a fault's message has all of some words in it.
func has(words ...string) func(string) bool {
	return func(fault string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(fault, word) })
	}
}
