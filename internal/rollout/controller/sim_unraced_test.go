//go:build !race

package controller

// fewer is of how many draws one is played: all are.
const fewer = 1
