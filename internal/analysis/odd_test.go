package analysis

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/prometheus/common/model"
)

// TestPrometheusAnswersOddly asks what is no Prometheus, or not well: each answer is
// read as a value only where it has one, and none ends the program.
func TestPrometheusAnswersOddly(t *testing.T) {
	of := func(data string) string { return `{"status":"success","data":` + data + `}` }
	vector := func(result string) string { return of(`{"resultType":"vector","result":` + result + `}`) }
	for answer, want := range map[string]string{
		``:                                       "bad_response",
		`null`:                                   "the query gives nothing",
		`{}`:                                     "the query gives nothing",
		`{"status":"ok"}`:                        "the query gives nothing",
		`{"status":"success"}`:                   "the query gives nothing",
		of(`null`):                               "the query gives nothing",
		of(`{}`):                                 "bad_response",
		of(`[]`):                                 "bad_response",
		of(`"0"`):                                "bad_response",
		of(`0`):                                  "bad_response",
		`[]`:                                     "bad_response",
		`0`:                                      "bad_response",
		`"0"`:                                    "bad_response",
		`<html>`:                                 "bad_response",
		`{"status":"error"}`:                     "",
		`{"status":1,"data":null}`:               "bad_response",
		of(`{"resultType":null}`):                "bad_response",
		of(`{"resultType":"none"}`):              "bad_response",
		of(`{"resultType":7,"result":[]}`):       "bad_response",
		of(`{"resultType":"scalar"}`):            "bad_response",
		of(`{"resultType":"vector"}`):            "bad_response",
		of(`{"result":[1767225600,"0.5"]}`):      "bad_response",
		vector(`null`):                           "the query has no result",
		vector(`[]`):                             "the query has no result",
		vector(`{}`):                             "bad_response",
		vector(`"0"`):                            "bad_response",
		vector(`[null]`):                         "the query gives a sample without a value",
		vector(`[{}]`):                           "the query gives a sample without a value",
		vector(`[{"metric":null}]`):              "the query gives a sample without a value",
		vector(`[{"value":null}]`):               "the query gives a sample without a value",
		vector(`[{"value":[]}]`):                 "the query gives a sample without a value",
		vector(`[{"value":[null,null]}]`):        "the query gives a sample without a value",
		vector(`[{"value":[1767225600,0]}]`):     "bad_response",
		vector(`[{"value":[1767225600,""]}]`):    "bad_response",
		vector(`[{"value":{}}]`):                 "bad_response",
		vector(`[[1767225600,"0.5"]]`):           "bad_response",
		vector(`[{"value":[1767225600,"NaN"]}]`): "the value is NaN",
		vector(`[{"value":[1767225600,"+Inf"]}]`):                                               "the value is +Inf",
		vector(`[{"value":[1767225600,"1e999"]}]`):                                              "bad_response",
		vector(`[{"metric":{},"histogram":[1767225600,{"count":"1","sum":"2","buckets":[]}]}]`): "the query gives a histogram",
		of(`{"resultType":"scalar","result":null}`):                                             "bad_response",
		of(`{"resultType":"scalar","result":[]}`):                                               "bad_response",
		of(`{"resultType":"scalar","result":[null,null]}`):                                      "bad_response",
		of(`{"resultType":"scalar","result":["now","0.5"]}`):                                    "bad_response",
		of(`{"resultType":"scalar","result":[1767225600,"NaN"]}`):                               "the value is NaN",
		of(`{"resultType":"string","result":[1767225600,"0"]}`):                                 "bad_response",
		of(`{"resultType":"matrix","result":null}`):                                             "the query gives a matrix",
		of(`{"resultType":"matrix","result":[null]}`):                                           "the query gives a matrix",
		of(`{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,"0.5"]]}]}`):    "the query gives a matrix",
		strings.Repeat(`[`, 100_000):                                                            "bad_response",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answer)
		}))
		wave, _ := waveOf(t, server)
		check := v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Address: server.URL, Query: "errors", Success: "< 1"}}
		if err := onThisMachine(t).Measure(context.Background(), check, wave); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", answer, err, want)
		}
		server.Close()
	}
}

// bounds are what a server answers, and what becomes of a measurement by it.
type bounds struct {
	name   string
	answer http.HandlerFunc
	// prometheus, probe and webhook are the failures, empty for none.
	prometheus, probe, webhook string
}

// TestAnswersWithoutEnd reads no more of an answer than an honest one can have, whoever is
// asked, also of what is small on its way; and follows no redirect.
func TestAnswersWithoutEnd(t *testing.T) {
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(other.Close)
	const value = `{"status":"success","data":{"resultType":"scalar","result":[1767225600,"0"]}}`
	for _, b := range []bounds{
		{"a body of 1 MiB", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, value+strings.Repeat(" ", longestBody-len(value)))
		}, "", "", ""},
		{"a body of 1 MiB and a byte", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, value+strings.Repeat(" ", longestBody+1-len(value)))
		}, "the answer is longer than 1048576 bytes", "", ""},
		{"a packed body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			defer packed.Close()
			_, _ = io.WriteString(packed, value+strings.Repeat(" ", longestBody))
		}, "the answer is longer than 1048576 bytes", "", ""},
		{"a body without end", func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat(" ", 64<<10))
			}
		}, "the answer is longer than 1048576 bytes", "", ""},
		{"a head of more than 64 KiB", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 80<<10))
			_, _ = io.WriteString(w, value)
		}, "headers exceeded 65536 bytes", "headers exceeded 65536 bytes", "headers exceeded 65536 bytes"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "bad response code 307", "", "status 307"},
	} {
		t.Run(b.name, func(t *testing.T) {
			server := httptest.NewServer(b.answer)
			defer server.Close()
			wave, port := waveOf(t, server)
			patient := new(int32(60))
			expect(t, v1alpha1.AnalysisCheck{Prometheus: &v1alpha1.PrometheusCheck{Address: server.URL, Query: "errors", Success: "< 1"}, TimeoutSeconds: patient}, wave, b.prometheus)
			expect(t, v1alpha1.AnalysisCheck{HTTP: &v1alpha1.HTTPCheck{Port: port}, TimeoutSeconds: patient}, wave, b.probe)
			expect(t, v1alpha1.AnalysisCheck{Webhook: &v1alpha1.WebhookCheck{URL: server.URL}, TimeoutSeconds: patient}, wave, b.webhook)
		})
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// TestValuesWithoutEnd are not all looked at: each costs the evaluation of its condition.
func TestValuesWithoutEnd(t *testing.T) {
	samples := slices.Repeat([]*model.Sample{{Value: 1, Timestamp: 1}}, mostValues+1)
	if values, err := valuesOf(model.Vector(samples[1:])); err != nil || len(values) != mostValues {
		t.Errorf("%d, %v", len(values), err)
	}
	if _, err := valuesOf(model.Vector(samples)); err == nil || !strings.Contains(err.Error(), "aggregate them") {
		t.Errorf("one more: %v", err)
	}
}
