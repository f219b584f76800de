package controller

import (
	"testing"
	"time"
)

// TestThreadTime: waiting, as for a processor that others have, is no effort; work is.
func TestThreadTime(t *testing.T) {
	const long = 20 * time.Millisecond
	p := newThrottle(threadTime)
	end := p.effort(request)
	time.Sleep(long)
	end(true)
	if waited := p.took[request]; waited >= long {
		t.Errorf("%s of waiting counted as %s", long, waited)
	}
	end = p.effort(request)
	for begun := threadTime(); threadTime()-begun < long; {
	}
	end(true)
	if worked := p.took[request]; worked < long {
		t.Errorf("%s of work counted as %s", long, worked)
	}
}
