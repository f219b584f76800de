package targets

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets rapid try enough worlds by default that a fault is found, and the
// same ones each time; other seeds and more checks are given by flags. Failures
// are reproduced by their seed, so nothing is written to disk.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "10000", "rapid.seed": "20261122", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
