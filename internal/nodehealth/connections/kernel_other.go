//go:build !linux

package connections

import (
	"errors"
	"time"
)

var errNotAvailable = errors.New("connections can be watched on Linux only")

// kernel tells nothing: only Linux has socket diagnostics.
type kernel struct{}

func openKernel([]uint16, int) (*kernel, error) { return nil, errNotAvailable }

func (*kernel) interrupt() {}

func (*kernel) close() {}

func (*kernel) dump() ([]connection, time.Duration, error) { return nil, 0, errNotAvailable }

func (*kernel) wait(time.Time, func(connection)) error { return errNotAvailable }

func (*kernel) drain(func(connection)) error { return errNotAvailable }
