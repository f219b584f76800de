package attaching

import (
	"flag"
	"os"
	"runtime"
	"testing"
)

// A scenario is drawn by its number, so what fails is the change and not the day. The
// default is few; make soak plays many others.
var (
	draws = flag.Int("draws", 0, "how many scenarios are played; 0 is as many as in make unit")
	first = flag.Int("first", 0, "the first of them")
	tell  = flag.Bool("tell", false, "tell what happens in each scenario")
	all   = flag.Bool("all", false, "go on after a scenario in which something is found")
)

// TestMain lets one goroutine run at a time: which of several runs first in a moment is
// the scheduler's to choose, and then it chooses the same each time.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
