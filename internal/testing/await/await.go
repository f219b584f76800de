// Package await lets tests wait for what happens beside them.
package await

import (
	"testing"
	"time"
)

// bound is long enough on a machine that is busy with other tests.
const bound = 20 * time.Second

// True returns when it is true, and ends the test where it is not within 20 seconds. What says what is
// to be: "the connection is idle".
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !is(); {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
