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
var expected = []expectation{
	// What others registered, on a node that is to be out in a group that no claim has a part
	// in, is not taken out, and the node is said to be out.
	{20, false, has("is said to be", "registered by them", "nobody speaks of it any more")},
	// A target that a claim leaves is forgotten before the floor has passed, where its load
	// balancer lists it no more.
	{21, false, has("forgets", "nobody speaks of it any more")},
}

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
