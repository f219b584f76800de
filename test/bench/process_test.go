package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestCollectorSeconds reads what this very toolchain says of garbage collections.
func TestCollectorSeconds(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if none, err := collectorSeconds(log); none != 0 || err != nil {
		t.Errorf("without a log: %v, %v", none, err)
	}
	if os.Getenv("COLLECT") != "" {
		for range 20 {
			kept = make([]*int, 1<<20)
			runtime.GC()
		}
		return
	}
	itself := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCollectorSeconds$")
	itself.Env = append(os.Environ(), "COLLECT=1", "GODEBUG=gctrace=1")
	said, err := itself.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := os.WriteFile(log, said, 0o600); err != nil {
		t.Fatal(err)
	}
	took, err := collectorSeconds(log)
	if all := (itself.ProcessState.UserTime() + itself.ProcessState.SystemTime()).Seconds(); err != nil || took <= 0 || took > all {
		t.Errorf("%v of %v seconds went into garbage collections, %v\n%s", took, all, err, said)
	}
}

var kept []*int
