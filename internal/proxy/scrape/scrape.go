// Package scrape answers Prometheus for all proxies of a node: whichever of those that share a port is asked tells the
// metrics of each, so that one scrape of the port is whole.
//
// Each process labels its metrics with its pod, and tells them the others by package peers. What these answer is parsed,
// and used where all of it is of the pod under whose name it was found: no sample of one process comes under the name of
// another.
package scrape

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// Label is the one that names the pod. It is not called pod, which Prometheus may attach to all that it scrapes: it
	// would be renamed to this where it does, and only there.
	Label = "exported_pod"

	// Known and Answered are the metrics that are of the node.
	Known    = "ingressdaemonset_proxy_node_processes"
	Answered = "ingressdaemonset_proxy_node_processes_answered"

	// patience is how long another one may take: of many backends there is much to tell, and Prometheus waits 10 seconds.
	patience = 3 * time.Second
	// maxBytes bounds what one may answer, maxParts how many samples and labels: a few bytes can be one, which takes
	// hundreds. 10,000 backends with four series each have half of both.
	maxBytes = 8 << 20
	maxParts = 400_000
	// maxRequests are how many there may be at a time, but for those of the other ones.
	maxRequests = 4
)

// Node answers for one proxy, and for all of its node that share a port.
type Node struct {
	peers *peers.Peers
	own   *prometheus.Registry
}

// New answers at a port for a pod, whose metrics the collectors have.
func New(port, pod string, collectors ...prometheus.Collector) *Node {
	n := &Node{peers.New("metrics-"+port, pod, patience), prometheus.NewRegistry()}
	// What the others know of the name.
	labels := prometheus.Labels{Label: peers.PodOf(n.peers.Own)}
	prometheus.WrapRegistererWith(labels, n.own).MustRegister(collectors...)
	return n
}

// Serve answers Prometheus until the context ends, or the listener fails.
func (n *Node) Serve(ctx context.Context, l net.Listener) error {
	all := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return n.gather(ctx) })
	return peers.Serve(ctx, l, handler(all, maxRequests))
}

// AnswerPeers answers the other proxies of the node until the context ends.
func (n *Node) AnswerPeers(ctx context.Context) error { return n.peers.Answer(ctx, handler(n.own, 0)) }

// handler answers what can be told, most requests at a time; 0: any number.
func handler(g prometheus.Gatherer, most int) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: most}))
	return mux
}

// process is what one tells, nothing where it does not answer.
type process struct {
	key      string
	families []*dto.MetricFamily
}

// gather has the metrics of all proxies of the node.
func (n *Node) gather(ctx context.Context) ([]*dto.MetricFamily, error) {
	own, err := n.own.Gather()
	all := []process{{n.peers.Own, own}}
	lost := n.peers.AskAll(ctx, "/metrics", maxBytes, func(a peers.Answer) { all = append(all, process{a.Key, read(a)}) })
	known := len(all)
	all = slices.DeleteFunc(n.oneOfEach(all), func(p process) bool { return p.families == nil })
	counts := []*dto.MetricFamily{gauge(Answered, "Proxies of the node at this port whose metrics these are.", len(all))}
	if lost == nil {
		counts = append(counts, gauge(Known, "Proxies of the node at this port, with those that do not answer.", known))
	}
	whole, conflicts := merge(counts, all)
	return whole, errors.Join(err, lost, conflicts)
}

// oneOfEach are those of whom one is of each pod, by the order of their keys, whoever asks: of two under one name the
// same is left out each time. We come first.
func (n *Node) oneOfEach(all []process) []process {
	slices.SortFunc(all, func(a, b process) int { return cmp.Compare(a.key, b.key) })
	all = slices.CompactFunc(all, func(a, b process) bool { return peers.PodOf(a.key) == peers.PodOf(b.key) })
	if at := slices.IndexFunc(all, func(p process) bool { return p.key == n.peers.Own }); at > 0 {
		all[0], all[at] = all[at], all[0]
	}
	return all
}

// merge has what is told in one. What contradicts what was told before is left out, but for a text: it may be another in
// another version.
func merge(counts []*dto.MetricFamily, all []process) ([]*dto.MetricFamily, error) {
	told := prometheus.Gatherers{gatherer(counts)}
	help := map[string]*string{}
	for _, p := range all {
		for _, f := range p.families {
			if text, before := help[f.GetName()]; before {
				f.Help = text
			}
			help[f.GetName()] = f.Help
		}
		told = append(told, gatherer(p.families))
	}
	return told.Gather()
}

func gatherer(families []*dto.MetricFamily) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
}

func gauge(name, help string, value int) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum(),
		Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: new(float64(value))}}}}
}

// read is what another one tells, nothing where any of it is not of its pod, or cannot be read.
func read(a peers.Answer) []*dto.MetricFamily {
	if a.Err != nil || partsIn(a.Content) > maxParts || !utf8.Valid(a.Content) {
		return nil
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(a.Content))
	if err != nil {
		return nil
	}
	for _, f := range families {
		if slices.ContainsFunc(f.Metric, func(m *dto.Metric) bool { return !isOf(m, peers.PodOf(a.Key)) }) {
			return nil
		}
	}
	return slices.Collect(maps.Values(families))
}

// isOf reports whether a sample is of a pod, and of now.
func isOf(m *dto.Metric, pod string) bool {
	return m.TimestampMs == nil && slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == Label && l.GetValue() == pod })
}

// partsIn is how many samples and labels a text has at most.
func partsIn(content []byte) int {
	return bytes.Count(content, []byte("\n")) + bytes.Count(content, []byte("="))
}
