package targets

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Grace is how long a pod goes on after its deletion began.
type Grace struct {
	// Sleep is how long the container that serves goes on as before, because its
	// preStop hook sleeps. It is Endless where the hook waits for something else.
	Sleep time.Duration
	// Period is after how long the pod is killed.
	Period time.Duration
	// Stop is how long before that the container that serves is stopped at the latest.
	Stop time.Duration
}

// Endless is longer than anything that is waited for.
const Endless = time.Duration(math.MaxInt64)

// GraceOf is the grace of the pods of a template. Where no container declares the port,
// the one that sleeps longest is taken for the one that serves.
func (m Mode) GraceOf(template corev1.PodSpec) Grace {
	g := Grace{Period: corev1.DefaultTerminationGracePeriodSeconds * time.Second}
	if s := template.TerminationGracePeriodSeconds; s != nil {
		g.Period = time.Duration(*s) * time.Second
	}
	serving := slices.DeleteFunc(running(template), func(c corev1.Container) bool {
		return !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == m.Port || p.HostPort == m.Port })
	})
	if len(serving) == 0 {
		serving = running(template)
	}
	for _, c := range serving {
		g.Sleep = max(g.Sleep, preStopSleep(c))
	}
	if m.Hook {
		g.Sleep, g.Stop = Endless, m.HookLeaves
	}
	return g
}

// sleepCommand finds the sleep in a command or a line of shell.
var sleepCommand = regexp.MustCompile(`(?:^|[\s/;&|(])sleep\s+([0-9]+)([smh]?)(?:$|[\s;&|)])`)

var units = map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}

// preStopSleep is how long the container's preStop hook waits.
func preStopSleep(c corev1.Container) time.Duration {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return 0
	}
	hook := c.Lifecycle.PreStop
	if hook.Sleep != nil {
		return time.Duration(hook.Sleep.Seconds) * time.Second
	}
	if hook.Exec != nil {
		if found := sleepCommand.FindStringSubmatch(strings.Join(hook.Exec.Command, " ")); found != nil {
			if n, err := strconv.ParseInt(found[1], 10, 32); err == nil {
				return time.Duration(n) * units[found[2]]
			}
		}
	}
	return Endless
}

// Shorter is what is the shorter of each.
func (g Grace) Shorter(o Grace) Grace {
	return Grace{min(g.Sleep, o.Sleep), min(g.Period, o.Period), max(g.Stop, o.Stop)}
}

// Short says what to write where pods end before their load balancers are done with
// them, or nothing. Those may send new connections for as long as settle after a pod's
// deletion began, and let open ones go on until the time of end after it.
func (g Grace) Short(settle, end time.Duration) string {
	var faults []string
	if g.Sleep < settle {
		faults = append(faults, fmt.Sprintf("the container that serves is stopped after %s: give it a preStop hook that sleeps, lifecycle.preStop.sleep.seconds: %d", g.Sleep, seconds(settle)))
	}
	if g.Period < end+g.Stop {
		hook := ""
		if g.Stop > 0 {
			hook = fmt.Sprintf(", of which its drain hook leaves it the last %s", g.Stop)
		}
		faults = append(faults, fmt.Sprintf("the pod is killed after %s%s: set terminationGracePeriodSeconds to %d", g.Period, hook, seconds(end+g.Stop)))
	}
	if len(faults) == 0 {
		return ""
	}
	return fmt.Sprintf("a load balancer may send new connections to a pod for %s after its deletion began, and lets open ones go on for another %s, but %s", settle, end-settle, strings.Join(faults, ", and "))
}

// seconds are whole ones, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
