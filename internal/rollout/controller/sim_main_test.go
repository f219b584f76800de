package controller

import "flag"

// A scenario is drawn by its number, so what fails is the change and not the day. make soak plays many others.
var (
	draws = flag.Int("draws", 0, "how many scenarios of each property are played; 0 is as many as in make unit")
	first = flag.Int("first", 0, "the first of them")
)

// update has tests write anew what they compare with.
var update = flag.Bool("update", false, "rewrite testdata")
