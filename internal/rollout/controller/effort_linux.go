package controller

import (
	"syscall"
	"time"
)

// threadTime is how much processor time the calling thread has used (getrusage(2),
// RUSAGE_THREAD).
func threadTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
