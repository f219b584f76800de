package rollout

import (
	"flag"
	"os"
	"testing"
)

// update rewrites the stories: go test ./internal/rollout -update.
var update = flag.Bool("update", false, "rewrite testdata/stories")

// TestMain lets rapid try enough worlds by default that a fault is found, and the
// same ones each time, so that what fails is the change and not the day; make soak
// tries many others. Failures are reproduced by their seed, so nothing is written
// to disk.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "1500", "rapid.seed": "20261121", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
