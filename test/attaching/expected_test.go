package attaching

// expected are faults that are known and not mended yet. To be emptied.
var expected = []expectation{}
