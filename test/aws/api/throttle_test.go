package api

import (
	"testing"
	"time"
)

func TestBucketsOfAWS(t *testing.T) {
	s := NewServer(nil, nil, nil, nil)
	now := time.Now()
	admitted := func(class string, calls int, at time.Time) (n int) {
		for range calls {
			if s.admit(class, at) {
				n++
			}
		}
		return n
	}
	for _, test := range []struct {
		class           string
		calls, admitted int
		later           time.Duration
	}{
		{reading, 100, 40, 0}, {reading, 100, 10, time.Second}, {reading, 100, 40, time.Minute},
		{registering, 100, 20, 0}, {registering, 100, 4, time.Second}, {registering, 100, 1, 1250 * time.Millisecond},
		{classicReading, 100, 40, 0}, {classicRegistering, 100, 20, 0}, {"", 100, 100, 0},
	} {
		if n := admitted(test.class, test.calls, now.Add(test.later)); n != test.admitted {
			t.Errorf("%s after %v: %d of %d calls, not %d", test.class, test.later, n, test.calls, test.admitted)
		}
	}
}

func TestClassesThatThereAreNot(t *testing.T) {
	if err := (Limits{"v2 Modify": {1, 1}}).Validate(); err == nil {
		t.Error("a class that there is not was taken")
	}
}
