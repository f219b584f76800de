package routing

import (
	"fmt"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
	corev1 "k8s.io/api/core/v1"
)

// Annotations on a Service, which say how requests are shared among its endpoints.
const (
	// AnnotationAffinityCookie is the name of a cookie by which a client's requests stay with an
	// endpoint: a token of at most 64 characters (RFC 6265, 4.1.1).
	AnnotationAffinityCookie = "ingressdaemonsets.mumoshu.github.io/affinity-cookie"
	// AnnotationMaxFails is after how many failures in a row an endpoint is left out: 0, for never, to
	// 100. Defaults to 1.
	AnnotationMaxFails = "ingressdaemonsets.mumoshu.github.io/max-fails"
	// AnnotationFailTimeout is for how long it is left out: 100ms to 1h. Defaults to 10s.
	AnnotationFailTimeout = "ingressdaemonsets.mumoshu.github.io/fail-timeout"
)

const (
	defaultMaxFails    = 1
	maxMaxFails        = 100
	defaultFailTimeout = 10_000
	minFailTimeout     = 100 * time.Millisecond
	maxFailTimeout     = time.Hour
	maxCookieName      = 64
)

// readPolicy fills in what a Service's annotations say. A wrong value gives the default, and a warning.
func readPolicy(service *corev1.Service, b *wire.Backend) (warnings []Event) {
	b.MaxFails, b.FailTimeout = defaultMaxFails, defaultFailTimeout
	for _, a := range []struct {
		name, allowed string
		read          func(*wire.Backend, string) bool
	}{
		{AnnotationAffinityCookie, "a name of 1 to 64 letters, digits and !#$%&'*+-.^_`|~; no cookie is set", readCookie},
		{AnnotationMaxFails, "a number from 0 (never) to 100; 1 is used", readMaxFails},
		{AnnotationFailTimeout, "a duration from 100ms to 1h, such as 10s; 10s is used", readFailTimeout},
	} {
		value, annotated := service.Annotations[a.name]
		if annotated && !a.read(b, value) {
			warnings = append(warnings, Event{RefOf(service), ReasonInvalidAnnotation, fmt.Sprintf("annotation %s is %q: allowed is %s", a.name, value, a.allowed)})
		}
	}
	return warnings
}

func readCookie(b *wire.Backend, name string) bool {
	if len(name) > maxCookieName || !wire.IsToken(name) {
		return false
	}
	b.Cookie = name
	return true
}

func readMaxFails(b *wire.Backend, value string) bool {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > maxMaxFails {
		return false
	}
	b.MaxFails = uint32(n)
	return true
}

func readFailTimeout(b *wire.Backend, value string) bool {
	d, err := time.ParseDuration(value)
	if err != nil || d < minFailTimeout || d > maxFailTimeout {
		return false
	}
	b.FailTimeout = uint32(d.Milliseconds())
	return true
}
