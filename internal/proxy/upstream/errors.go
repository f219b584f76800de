package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Class is how far a request had come when it failed, as who tries again needs to know.
type Class uint8

// Classes.
const (
	// NotConnected is that the endpoint refused the connection, or has left.
	NotConnected Class = iota + 1
	// NotWritten is that not a byte of the request was taken.
	NotWritten
	// NoResponse is that the connection ended when some of the request was taken and nothing of a
	// response had come: the endpoint may have acted upon it.
	NoResponse
	// Malformed is a response that cannot be understood, or not in one way only.
	Malformed
	// BodyBroken is that the connection ended within a response.
	BodyBroken
	// TimedOut is that it took too long; Error.During tells what. While Connecting, the endpoint has seen
	// nothing of the request.
	TimedOut
	// RequestBroken is that the request's body could not be read to its end.
	RequestBroken
	// Canceled is that the context ended.
	Canceled
	// Invalid is that the request cannot be written as it is; the endpoint has seen nothing of it.
	Invalid
)

func (c Class) String() string {
	return [...]string{
		"none", "not connected", "not written", "no response", "malformed response", "broken response",
		"timed out", "broken request", "canceled", "invalid request",
	}[c]
}

// Phase is what was being done.
type Phase uint8

// Phases.
const (
	Connecting Phase = iota + 1
	Sending
	AwaitingHead
	ReadingBody
)

func (p Phase) String() string {
	return [...]string{"", "connecting", "sending", "awaiting the head", "reading the body"}[p]
}

// Error is what every failure is.
type Error struct {
	Class  Class
	During Phase
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Reached(), e.Err) }

// Reached is how far the request had come, without the cause, in which addresses may stand.
func (e *Error) Reached() string { return fmt.Sprintf("%s while %s", e.Class, e.During) }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// errLate is that a bound was reached.
var errLate = fmt.Errorf("too late: %w", os.ErrDeadlineExceeded)

func isLate(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
