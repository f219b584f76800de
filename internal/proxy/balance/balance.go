// Package balance chooses for each request the backend and the endpoint: by weights, in turn, by
// cookie, past what fails; and says which failures may be tried again.
//
// It keeps no clock and no lock: the time is an argument, and callers hold a lock around each Weights,
// Endpoints and Budget.
//
// Its files, in the order in which to open them:
//
//   - weights.go: which backend of a route. balance.go: how numbers are drawn for that.
//   - endpoints.go: which endpoint of a backend. inturn.go: one after the other. cookie.go: by its name. eject.go: which is
//     left out for its failures.
//   - retry.go: which failures may be tried again. budget.go: how many.
package balance

import "math/bits"

// mix draws the next number from a state that it moves on, as SplitMix64 does (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
func mix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws a number of [0, n), n > 0.
func below(n int64, state *uint64) int64 {
	drawn, _ := bits.Mul64(mix(state), uint64(n))
	return int64(drawn)
}
