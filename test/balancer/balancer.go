// Package balancer shows what clients lose while the targets of a network load balancer
// move: on a real cluster behind the emulator of AWS, which forwards every
// connection of theirs to the targets that AWS might choose. The demonstration and the
// tests run the same cases.
//
// Read cases.go first, then unkind.go and run.go; fixture.go and cloud.go set up what they
// run on. README.md says what each case proves.
package balancer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/api"
)

// Options say what to set up.
type Options struct {
	// Dir is the cluster's folder.
	Dir string
	// Scale, 1 to 10, divides the times of AWS, and those of the controller that answer
	// to them.
	Scale float64
	// Seed is of every draw: of AWS's times, and of the moments at which a case
	// interferes.
	Seed uint64
	// Log gets a line for each step, and one every few seconds of a case.
	Log io.Writer
}

// scaled is a time of AWS as it is here, in whole seconds, rounded up.
func (o Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d)/o.Scale + float64(time.Second) - 1).Truncate(time.Second)
}

// moves counts the targets that calls registered or deregistered, but for those of us.
func moves(calls []api.Call) (n int) {
	for _, c := range calls {
		if c.CarriedOut && c.Principal != ours && (c.Action == "RegisterTargets" || c.Action == "DeregisterTargets") {
			n += len(c.Targets)
		}
	}
	return n
}

// throttled counts the calls that were refused for their rate.
func throttled(calls []api.Call) (n int) {
	for _, c := range calls {
		if c.Outcome == "Throttling" {
			n++
		}
	}
	return n
}

// storyTime is how stories write a moment, so that their lines sort by it.
const storyTime = "2006-01-02T15:04:05.000000-07:00"

// told is what a story tells of the calls that change something.
func told(calls []api.Call) []string {
	var lines []string
	for _, c := range calls {
		if c.Action != "RegisterTargets" && c.Action != "DeregisterTargets" {
			continue
		}
		targets := slices.Clone(c.Targets)
		slices.SortFunc(targets, func(a, b target) int { return cmp.Compare(a.ID, b.ID) })
		lines = append(lines, fmt.Sprintf("%s %s of %v: %s", c.At.Format(storyTime), c.Action, targets, c.Outcome))
	}
	return lines
}
