//go:build race

package controller

// fewer is of how many draws one is played: under the race detector each takes eight times as long, and few
// show what goroutines share.
const fewer = 20
