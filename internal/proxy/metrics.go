package proxy

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/upstream"
	"github.com/prometheus/client_golang/prometheus"
)

// counts are what is counted of a backend. They go with it, so that there are no more series than
// backends.
type counts struct {
	// answers are by the first digit of the status that the client got, 0 where it was cut off before.
	answers [10]atomic.Uint64
	// failures are tries that failed, by upstream.Class.
	failures [upstream.Invalid + 1]atomic.Uint64
	// retries are tries after the request was written, exhausted are those that the budget refused,
	// broken are responses that broke off.
	retries, exhausted, broken atomic.Uint64
}

// metrics are what is counted of all requests.
type metrics struct {
	// refused are answers of the proxy's own, by status.
	refused [600]atomic.Uint64
	// durations are requests by bucket, the last for all that took longer; nanoseconds is their sum.
	durations   [len(buckets) + 1]atomic.Uint64
	nanoseconds atomic.Int64
	connections atomic.Int64
	displaced   atomic.Uint64
}

// buckets are bounds of durations in seconds.
var buckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// own counts an answer of the proxy's own.
func (m *metrics) own(status int) { m.refused[min(max(status, 0), len(m.refused)-1)].Add(1) }

// note counts a request that has ended.
func (m *metrics) note(x *exchange, now time.Time) {
	if x.backend != nil {
		x.backend.counts.answers[min(x.status/100, 9)].Add(1)
	}
	if x.try.endpoint == nil {
		m.own(x.status)
	}
	took := now.Sub(x.start)
	m.nanoseconds.Add(int64(took))
	at := 0
	for at < len(buckets) && took.Seconds() > buckets[at] {
		at++
	}
	m.durations[at].Add(1)
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ingressdaemonset_proxy_"+name, help, labels, nil)
}

var (
	requestsTotal  = describe("requests_total", "Requests by backend and first digit of the status that the client got, 0 for those cut off before.", "backend", "code")
	failuresTotal  = describe("failed_tries_total", "Tries of requests on endpoints that failed, by backend and how far they had come.", "backend", "failure")
	retriesTotal   = describe("retries_total", "Tries of requests after one in which the request was written.", "backend")
	exhaustedTotal = describe("retries_refused_total", "Retries that the budget did not permit.", "backend")
	brokenTotal    = describe("broken_responses_total", "Responses that broke off in their body.", "backend")
	refusedTotal   = describe("own_answers_total", "Answers of the proxy's own, by status; 499 are clients that left.", "code")
	secondsTotal   = describe("request_seconds", "How long requests took from their head to the end of the response, in seconds.")
	underWay       = describe("requests", "Requests under way, with connections that have changed their protocol.")
	connectionsNow = describe("connections", "Connections of clients.")
	displacedTotal = describe("displaced_connections_total", "Connections of clients that were closed because there were too many: idle ones, and new ones where none was idle.")

	described = []*prometheus.Desc{requestsTotal, failuresTotal, retriesTotal, exhaustedTotal, brokenTotal, refusedTotal, secondsTotal, underWay, connectionsNow, displacedTotal}
)

// Describe is of prometheus.Collector.
func (p *Proxy) Describe(out chan<- *prometheus.Desc) {
	for _, d := range described {
		out <- d
	}
}

// Collect is of prometheus.Collector: labels are names of backends that there are, statuses and failures.
func (p *Proxy) Collect(out chan<- prometheus.Metric) {
	m := &p.metrics
	p.backends.Range(func(_, b any) bool {
		b.(*backend).collect(out)
		return true
	})
	for status := range m.refused {
		counter(out, refusedTotal, &m.refused[status], fmt.Sprint(status))
	}
	m.collectDurations(out)
	out <- prometheus.MustNewConstMetric(underWay, prometheus.GaugeValue, float64(p.under.Load()))
	out <- prometheus.MustNewConstMetric(connectionsNow, prometheus.GaugeValue, float64(m.connections.Load()))
	counter(out, displacedTotal, &m.displaced)
}

// counter is left out while it is 0.
func counter(out chan<- prometheus.Metric, d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
	if n := n.Load(); n > 0 {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
}

func (b *backend) collect(out chan<- prometheus.Metric) {
	c := &b.counts
	for digit := range c.answers {
		code := fmt.Sprintf("%dxx", digit)
		if digit == 0 {
			code = "0"
		}
		counter(out, requestsTotal, &c.answers[digit], b.name, code)
	}
	for class := range c.failures {
		counter(out, failuresTotal, &c.failures[class], b.name, upstream.Class(class).String())
	}
	counter(out, retriesTotal, &c.retries, b.name)
	counter(out, exhaustedTotal, &c.exhausted, b.name)
	counter(out, brokenTotal, &c.broken, b.name)
}

func (m *metrics) collectDurations(out chan<- prometheus.Metric) {
	below := make(map[float64]uint64, len(buckets))
	var count uint64
	for at, bound := range buckets {
		count += m.durations[at].Load()
		below[bound] = count
	}
	count += m.durations[len(buckets)].Load()
	sum := time.Duration(m.nanoseconds.Load()).Seconds()
	out <- prometheus.MustNewConstHistogram(secondsTotal, count, sum, below)
}
