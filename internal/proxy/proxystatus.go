package proxy

import (
	"fmt"
	"net/http"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/balance"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
)

// proxyStatus is the field Proxy-Status of an answer of the proxy's own (RFC 9209), by which whoever sent the request
// can tell whether an endpoint may have seen it: empty where none was to see it. It names no endpoint, since anybody
// reads it.
func (x *exchange) proxyStatus(status int) string {
	failed := x.try.failed
	switch {
	case failed != nil && status == x.statusOf(failed):
		if f := failureOf(failed); x.try.seen != nil && (f == balance.NotConnected || f == balance.NotWritten) {
			failed = x.try.seen
		}
		if kind := errorType(failed); kind != "" {
			return fmt.Sprintf("ingressdaemonset; error=%s; details=%q", kind, failed.Reached())
		}
	case status == http.StatusServiceUnavailable:
		return "ingressdaemonset; error=destination_unavailable"
	}
	return ""
}

// errorType is how RFC 9209 names a failure.
func errorType(failed *upstream.Error) string {
	switch failed.Class {
	case upstream.NotConnected:
		if isShortage(failed) {
			return "connection_limit_reached"
		}
		return "connection_refused"
	case upstream.NotWritten, upstream.NoResponse:
		return "connection_terminated"
	case upstream.Malformed:
		return "http_protocol_error"
	case upstream.BodyBroken:
		return "http_response_incomplete"
	case upstream.TimedOut:
		if failed.During == upstream.Connecting {
			return "connection_timeout"
		}
		return "http_response_timeout"
	}
	return ""
}
