package api

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/test/aws/cloud"
)

// Call is what became of one call.
type Call struct {
	Number    int           `json:"number"`
	ID        string        `json:"id"`
	At        time.Time     `json:"at"` // when it came in
	Took      time.Duration `json:"took"`
	Principal string        `json:"principal,omitempty"`
	// Tags are those of the caller's session.
	Tags       map[string]string `json:"tags,omitempty"`
	Version    string            `json:"version"`
	Action     string            `json:"action"`
	Resource   string            `json:"resource,omitempty"` // group or load balancer
	Targets    []cloud.Target    `json:"targets,omitempty"`
	Status     int               `json:"status"`  // 0 where no response was sent
	Outcome    string            `json:"outcome"` // OK, the error's code, or response lost
	CarriedOut bool              `json:"carriedOut"`
}

func (c *Call) describe(p params) {
	c.Resource = p.text("TargetGroupArn") + p.text("LoadBalancerName") + p.text("LoadBalancerArn")
	c.Targets, _ = p.targets()
	for _, id := range p.list("Instances", ".InstanceId") {
		c.Targets = append(c.Targets, cloud.Target{ID: id})
	}
}

// Log is all calls, in the order in which they were answered.
type Log struct {
	mu    sync.Mutex
	ids   int
	calls []Call
}

func (l *Log) nextID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", l.ids)
}

func (l *Log) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Number, c.Took = len(l.calls)+1, time.Since(c.At)
	l.calls = append(l.calls, c)
}

// After are the calls with a higher number than n.
func (l *Log) After(n int) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call{}, l.calls[min(max(n, 0), len(l.calls)):]...)
}

// Metrics counts calls by action and outcome, as Prometheus reads it.
func (l *Log) Metrics() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts, order := map[string]int{}, []string{}
	for _, c := range l.calls {
		name := fmt.Sprintf("aws_calls_total{version=%q,action=%q,outcome=%q}", c.Version, c.Action, c.Outcome)
		if counts[name] == 0 {
			order = append(order, name)
		}
		counts[name]++
	}
	var b strings.Builder
	b.WriteString("# TYPE aws_calls_total counter\n")
	for _, name := range order {
		fmt.Fprintf(&b, "%s %d\n", name, counts[name])
	}
	return b.String()
}
