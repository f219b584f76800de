package balance

import (
	"flag"
	"os"
	"testing"
	"time"
)

// TestMain lets rapid try the same cases each time; other seeds and more checks are given by flags.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "300", "rapid.seed": "20261128", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// noon is when tests begin.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// after is so many seconds later.
func after(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
