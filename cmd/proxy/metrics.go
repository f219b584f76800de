package main

import (
	"runtime"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/scrape"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/subscription"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ingressdaemonset_proxy_"+name, help, labels, nil)
}

var (
	buildInfo        = describe("build_info", "1 for each proxy that runs, by its version and that of Go.", "version", "goversion")
	connected        = describe("connected", "1 where a controller tells the proxy what to serve, otherwise 0.")
	connectedSeconds = describe("connected_seconds", "For how many seconds a controller has told the proxy, or none has.")
	position         = describe("position", "How far the log of the controller was that told the proxy last.")
	refusedResources = describe("refused_resources", "Resources that the proxy cannot use as it was told them last.")

	described = []*prometheus.Desc{buildInfo, connected, connectedSeconds, position, refusedResources}
)

// newScrape tells Prometheus of the process, at a port.
func newScrape(port, pod string, p *proxy.Proxy, told func() subscription.State) *scrape.Node {
	return scrape.New(port, pod, p, standing{told}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// standing is how the proxy stands to controllers.
type standing struct{ told func() subscription.State }

// Describe is of prometheus.Collector.
func (standing) Describe(out chan<- *prometheus.Desc) {
	for _, d := range described {
		out <- d
	}
}

// Collect is of prometheus.Collector.
func (s standing) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	told := s.told()
	gauge(buildInfo, 1, version, runtime.Version())
	gauge(refusedResources, float64(len(told.Refused)))
	is := 0.0
	if told.Connected {
		is = 1
	}
	gauge(connected, is)
	if !told.Since.IsZero() {
		gauge(connectedSeconds, time.Since(told.Since).Seconds())
	}
	// It is a number where the controller is of this version.
	if at, err := strconv.ParseUint(told.Position, 10, 64); err == nil {
		gauge(position, float64(at))
	}
}
