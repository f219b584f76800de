// Package await lets tests wait for what happens beside them.
package await

import (
	"context"
	"testing"
	"time"
)

// bound is long enough on a machine that is busy with other tests.
const bound = 30 * time.Second

// True returns when it is true, and ends the test where it is not within 30 seconds. What says what is
// to be: "the connection is idle".
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !is(); {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// NoError tries some times a second until there is no error, for 30 seconds and for as long as the context
// lasts, and gives the last error.
func NoError(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
