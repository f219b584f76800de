package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy"
	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/subscription"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

// metrics are those of a process.
func metrics(p *proxy.Proxy, told func() subscription.State) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(p, standing{told}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
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

// serveMetrics serves them until the context ends. Two proxies of one node may be given the same address:
// the one that does not get it serves requests all the same, and tries again every second.
func serveMetrics(ctx context.Context, address string, all *prometheus.Registry, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	serveAgain(ctx, log, "metrics", func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		log.Info("metrics are served", "address", l.Addr())
		return s.Serve(l)
	})
}
