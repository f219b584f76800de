package controller

import (
	"testing"
	"time"
)

// TestThreadTime: waiting, as for a processor that others have, is no effort; work is.
func TestThreadTime(t *testing.T) {
	const long = 20 * time.Millisecond
	p := &throttle{spent: threadTime}
	end := p.effort()
	time.Sleep(long)
	end(true)
	if waited := p.took; waited >= long {
		t.Errorf("%s of waiting counted as %s", long, waited)
	}
	end = p.effort()
	for begun := threadTime(); threadTime()-begun < long; {
	}
	end(true)
	if worked := p.took; worked < long {
		t.Errorf("%s of work counted as %s", long, worked)
	}
}
