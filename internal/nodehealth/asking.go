package nodehealth

import (
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
)

// QuietAtLeast is how long nobody may have asked at least until a port is quiet: 5
// minutes, the longest interval that load balancers can be given, and time for a check.
const QuietAtLeast = 5*time.Minute + 30*time.Second

// Asking is who asks a health-check port, of those that are none of this project's
// programs.
type Asking struct {
	// Since is when the port was opened.
	Since time.Time
	// AtLeast is QuietAtLeast, but in tests.
	AtLeast time.Duration

	by      string
	last    time.Time
	longest time.Duration
}

// Add takes note of a request, or a connection without one, from an address.
func (a *Asking) Add(by string, now time.Time) {
	if !a.last.IsZero() {
		a.longest = max(a.longest, now.Sub(a.last))
	}
	a.by, a.last = by, now
}

// QuietAt is when the port turns quiet unless somebody asks before.
func (a *Asking) QuietAt() time.Time {
	return later(a.Since, a.last).Add(max(a.AtLeast, 3*a.longest))
}

// Told is what the answer says of it.
func (a *Asking) Told(now time.Time) (asked *v1alpha1.Asked, quiet bool) {
	if !a.last.IsZero() {
		asked = &v1alpha1.Asked{By: a.by, SecondsAgo: now.Sub(a.last).Seconds(), IntervalSeconds: a.longest.Seconds()}
	}
	return asked, !now.Before(a.QuietAt())
}
