package balance

import "time"

// Bounds of what is tried again.
const (
	// MaxRetries is how often a request is tried again after it was written.
	MaxRetries = 2
	// MaxBody is up to how many bytes of a body are kept so that it can be sent again.
	MaxBody = 64 << 10
	// ConnectFor is for how long other endpoints are tried while none can be connected to.
	ConnectFor = 3 * time.Second
)

// Failure is how far a try had come.
type Failure uint8

// Failures.
const (
	// NotConnected is that the endpoint refused, or did not answer, the connection.
	NotConnected Failure = iota
	// NotWritten is that the connection was lost before a byte of the request was written.
	NotWritten
	// NoResponse is that the connection was lost after that, and before a byte of a response.
	NoResponse
	// Answered is any later failure, a time-out, or a response that cannot be understood: the request
	// was acted upon, or may be still.
	Answered
)

// Try is a try that failed.
type Try struct {
	Failure Failure
	Method  string
	// Whole says whether the body is still there from its first byte: there is none, or it was kept, see
	// MaxBody.
	Whole bool
	// Retries are those that there were of this request after it was written.
	Retries int
	// Since is how long ago the first endpoint was chosen.
	Since time.Duration
}

// Verdict says whether a request may be tried again on another endpoint.
type Verdict uint8

// Verdicts.
const (
	// Never is that the client is told of the failure.
	Never Verdict = iota
	// Free is that it may.
	Free
	// Budgeted is that it may if the budget permits, see Budget.
	Budgeted
)

// Again is the table of what may be tried again: what no endpoint has seen always may, for a while;
// what may have been acted upon only where acting twice is as acting once.
func Again(t Try) Verdict {
	switch t.Failure {
	case NotConnected, NotWritten:
		if t.Whole && t.Since < ConnectFor {
			return Free
		}
	case NoResponse:
		if t.Whole && Repeatable(t.Method) && t.Retries < MaxRetries {
			return Budgeted
		}
	}
	return Never
}

// Repeatable reports whether a request of the method may be sent twice: the idempotent methods of RFC 9110,
// 9.2.2, but for TRACE.
func Repeatable(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE":
		return true
	}
	return false
}
