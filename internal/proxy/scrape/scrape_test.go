package scrape

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/proxy/peers"
	"github.com/mumoshu/ingress-daemonset-controller/internal/testing/await"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// requests is a counter, and a histogram beside it.
func requests(count float64) []prometheus.Collector {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds", Help: "Seconds.", Buckets: []float64{1}})
	c.Add(count)
	h.Observe(count)
	return []prometheus.Collector{c, h, collectors.NewGoCollector()}
}

// newPort is one that no other test has: proxies find each other by it.
func newPort() string { return peers.NewKey("")[1:9] }

// node is a proxy that counted so many requests.
func node(t *testing.T, port, pod string, count float64) *Node {
	t.Helper()
	n := New(port, pod, requests(count)...)
	run(t, n.AnswerPeers)
	return n
}

func run(t *testing.T, serve func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// served is where a proxy answers Prometheus.
func (n *Node) served(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error { return n.Serve(ctx, l) })
	return "http://" + l.Addr().String() + "/metrics"
}

func scraped(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("answered is %d, %v: %s", response.StatusCode, err, body)
	}
	return string(body)
}

// answersAs has one more proxy of the node answer.
func (n *Node) answersAs(t *testing.T, key string, answer http.HandlerFunc) {
	t.Helper()
	p := *n.peers
	p.Own = key
	run(t, func(ctx context.Context) error { return p.Answer(ctx, answer) })
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

// endless has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// tells reports whether a text has lines that begin so, and nowhere what is never to be told.
func tells(text string, lines []string, never ...string) bool {
	lacks := func(line string) bool { return !strings.Contains("\n"+text, "\n"+line) }
	told := func(part string) bool { return part != "" && strings.Contains(text, part) }
	return !slices.ContainsFunc(lines, lacks) && !slices.ContainsFunc(never, told)
}

// counted are the lines of how many answered, of how many.
func counted(answered, known int) []string {
	return []string{fmt.Sprintf("%s %d\n", Answered, answered), fmt.Sprintf("%s %d\n", Known, known)}
}

// TestNode: whichever proxy is asked tells the metrics of all, each under the name of its pod, and one that is frozen is
// missing: it holds up nobody for longer than patience.
func TestNode(t *testing.T) {
	port := newPort()
	a, b := node(t, port, "web-a", 3), node(t, port, "web-b", 4)
	frozen, err := net.Listen("unix", a.peers.Socket(peers.NewKey("web-frozen")))
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	// Another port is of others.
	node(t, newPort(), "web-c", 5)
	want := append(counted(2, 3), `requests_total{exported_pod="web-a"} 3`, `requests_total{exported_pod="web-b"} 4`, `go_goroutines{exported_pod="web-a"} `,
		`go_goroutines{exported_pod="web-b"} `, `seconds_bucket{exported_pod="web-b",le="1"} 0`, `seconds_sum{exported_pod="web-a"} 3`)
	for _, n := range []*Node{a, b} {
		n.peers.Patience = time.Second
		url := n.served(t)
		await.True(t, "both are told", func() bool {
			began := time.Now()
			text := scraped(t, url)
			if took := time.Since(began); took > 5*time.Second {
				t.Fatalf("it takes %s", took)
			}
			return tells(text, want, "web-c", "web-frozen")
		})
	}
}

// TestOddPeers: of what is not all of its pod and well formed nothing is told, and all else as without it.
func TestOddPeers(t *testing.T) {
	n := node(t, newPort(), "web-a", 3)
	url := n.served(t)
	const fine = "odd{exported_pod=\"web-b\"} 1\n"
	for name, test := range map[string]struct {
		answer   http.HandlerFunc
		answered int
		// more is what is told of it, never what is not.
		more, never string
	}{
		"fine":               {says(fine), 2, fine, ""},
		"nothing":            {says(""), 1, "", "web-b"},
		"rubbish":            {says(fine + "<html>\n"), 1, "", "web-b"},
		"no end":             {says(fine + "odd"), 1, "", "odd"},
		"another pod":        {says(fine + "odd{exported_pod=\"web-a\"} 1\n"), 1, "", "odd"},
		"a pod of nobody":    {says("odd{exported_pod=\"web-c\"} 1\n"), 1, "", "odd"},
		"no pod":             {says(fine + "odd 1\n"), 1, "", "odd"},
		"two pods":           {says("odd{exported_pod=\"web-b\",exported_pod=\"web-a\"} 1\n"), 1, "", "odd"},
		"another time":       {says("odd{exported_pod=\"web-b\"} 1 1000\n"), 1, "", "odd"},
		"no text":            {says("odd{exported_pod=\"web-b\",a=\"\xff\"} 1\n"), 1, "", "odd"},
		"no text of help":    {says("# HELP odd \xff\n" + fine), 1, "", "odd"},
		"an error":           {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, fine, http.StatusTeapot) }, 1, "", "odd"},
		"endless":            {func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) }, 1, "", "odd"},
		"too many samples":   {says(strings.Repeat(fine, maxParts/2+1)), 1, "", "odd"},
		"too many labels":    {says("odd{" + strings.Repeat(`a="",`, maxParts+1) + "exported_pod=\"web-b\"} 1\n"), 1, "", "odd"},
		"another type":       {says("# TYPE requests_total gauge\nrequests_total{exported_pod=\"web-b\"} 7\n" + fine), 2, fine, `requests_total{exported_pod="web-b"`},
		"another text":       {says("# HELP requests_total Of yore.\n# TYPE requests_total counter\nrequests_total{exported_pod=\"web-b\"} 7\n"), 2, "requests_total{exported_pod=\"web-b\"} 7\n", "yore"},
		"as part of another": {says("seconds_count{exported_pod=\"web-b\"} 7\n" + fine), 2, fine, `seconds_count{exported_pod="web-b"`},
		"the same twice":     {says(fine + "odd{exported_pod=\"web-b\"} 2\n"), 2, fine, `odd{exported_pod="web-b"} 2`},
		"as if of the node":  {says(Known + "{exported_pod=\"web-b\"} 9\n" + fine), 2, fine, `web-b"} 9`},
	} {
		t.Run(name, func(t *testing.T) {
			n.answersAs(t, peers.NewKey("web-b"), test.answer)
			want := append(counted(test.answered, 2), "requests_total{exported_pod=\"web-a\"} 3\n", "seconds_count{exported_pod=\"web-a\"} 1\n", test.more)
			got := ""
			defer func() {
				if t.Failed() {
					t.Logf("told is\n%.3000s", got)
				}
			}()
			await.True(t, "it is told as far as it may be", func() bool {
				got = scraped(t, url)
				return tells(got, want, test.never)
			})
		})
	}
}

// TestOneOfEachPod: of two under one name the same is told, whoever is asked, so that no counter goes back and forth.
func TestOneOfEachPod(t *testing.T) {
	port := newPort()
	both := []*Node{node(t, port, "web-a", 3), node(t, port, "web-a", 4)}
	told := 3
	if both[1].peers.Own < both[0].peers.Own {
		told = 4
	}
	for _, n := range both {
		url := n.served(t)
		await.True(t, "the one is told", func() bool {
			return tells(scraped(t, url), append(counted(1, 2), fmt.Sprintf("requests_total{exported_pod=\"web-a\"} %d\n", told)))
		})
	}
}

// TestNoSocketTable: where nobody can tell which others there are, this one is told, and not of how many.
func TestNoSocketTable(t *testing.T) {
	n := node(t, newPort(), "web-a", 3)
	n.peers.Table = filepath.Join(t.TempDir(), "missing")
	if got := scraped(t, n.served(t)); !tells(got, []string{"requests_total{exported_pod=\"web-a\"} 3\n", Answered + " 1\n"}, Known+" ") {
		t.Errorf("told is\n%s", got)
	}
}

// TestLongNames: pods whose names a Deployment made are told apart, however long these are.
func TestLongNames(t *testing.T) {
	const stem = "ingress-of-a-very-long-name-on-a-node-of-a-long-one-7c9f8d-"
	port := newPort()
	a, b := stem+"abcd", stem+"abce"
	if len(a) != 63 {
		t.Fatalf("the name has %d letters", len(a))
	}
	url := node(t, port, a, 3).served(t)
	node(t, port, b, 4)
	await.True(t, "both are told", func() bool {
		return tells(scraped(t, url), []string{"requests_total{exported_pod=\"" + a + "\"} 3\n", "requests_total{exported_pod=\"" + b + "\"} 4\n"})
	})
}

// FuzzAnswer tells whatever another one answers as text that can be read, none of it under the name of another, and all
// of our own.
func FuzzAnswer(f *testing.F) {
	n := New(newPort(), "web-a", requests(3)...)
	own, err := n.own.Gather()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", "odd{exported_pod=\"web-b\"} 1\n", "# TYPE odd gauge_histogram\nodd_bucket{exported_pod=\"web-b\",le=\"1\"} 1\nodd_count{exported_pod=\"web-b\"} 1\n",
		"# TYPE odd summary\nodd{exported_pod=\"web-b\",quantile=\"0.5\"} NaN\nodd_sum{exported_pod=\"web-b\"} +Inf\n", "# HELP odd a\\\\b\\n\n# TYPE odd counter\n{\"odd\",exported_pod=\"web-b\"} -1e300\n",
		"requests_total{exported_pod=\"web-b\"} 1\n", "seconds_sum{exported_pod=\"web-b\"} 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		told := read(peers.Answer{Key: "web-b~0123456789abcdef", Content: content})
		whole, _ := merge(nil, []process{{"web-a~0123456789abcdef", own}, {"web-b~0123456789abcdef", told}})
		var text bytes.Buffer
		for _, family := range whole {
			if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
				t.Fatalf("%q cannot be told: %v", content, err)
			}
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		again, err := parser.TextToMetricFamilies(&text)
		if err != nil {
			t.Fatalf("of %q nobody can read %q: %v", content, text.String(), err)
		}
		ours := 0
		for _, family := range again {
			for _, m := range family.Metric {
				if isOf(m, "web-a") {
					ours++
				} else if !isOf(m, "web-b") {
					t.Fatalf("of %q told is %s", content, m)
				}
			}
		}
		if ours != samplesIn(own) {
			t.Fatalf("of %q told are %d of our own %d", content, ours, samplesIn(own))
		}
	})
}

func samplesIn(families []*dto.MetricFamily) (n int) {
	for _, f := range families {
		n += len(f.Metric)
	}
	return n
}
