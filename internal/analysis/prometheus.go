package analysis

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	prometheusapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// itsOwnNow has Prometheus evaluate a query by its own clock: by ours it could be asked for
// a time before the wave, or one of which it knows nothing yet.
var itsOwnNow time.Time

func (m *Measurer) askPrometheus(ctx context.Context, check *v1alpha1.PrometheusCheck, wave rollout.Wave) error {
	passes, err := condition(check.Success)
	if err != nil {
		return err
	}
	asked, err := query(check.Query, wave)
	if err != nil {
		return err
	}
	address, c, told, err := m.prometheus(ctx, check, wave)
	if err != nil {
		return err
	}
	api, err := prometheusapi.NewClient(prometheusapi.Config{Address: address, Client: c})
	if err != nil {
		return told(err)
	}
	result, _, _, err := prometheus.NewAPI(api).Query(ctx, asked, itsOwnNow)
	if err != nil {
		return told(err)
	}
	values, err := valuesOf(result)
	if err != nil {
		return err
	}
	if len(values) == 0 && check.Empty != "Pass" {
		return errors.New("the query has no result")
	}
	for _, v := range values {
		ok, err := passes(ctx, v)
		if err != nil {
			return fmt.Errorf("the value is %g: %w", v, err)
		}
		if !ok {
			return fmt.Errorf("the value is %g and should be %s", v, check.Success)
		}
	}
	return nil
}

// prometheus is whom a check asks, how, and how what it says is told.
func (m *Measurer) prometheus(ctx context.Context, check *v1alpha1.PrometheusCheck, wave rollout.Wave) (address string, c *http.Client, told func(error) error, err error) {
	if check.Provider == "" {
		way, err := m.route(ctx, check.Address, wave)
		return check.Address, bounded(&http.Transport{DialContext: way}), withoutURL, err
	}
	p, err := m.provider(check.Provider)
	if err != nil {
		return "", nil, nil, err
	}
	if c, err = p.client(); err != nil {
		return "", nil, nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return p.Address, c, p.told, nil
}

// longestQuery is asked, in bytes: one that names the 1000 nodes of a wave five times.
const longestQuery = 256 << 10

// query fills in what stands for the wave. One that would be longer than longestQuery is not
// made at all: a query may name the nodes some 500 times.
func query(text string, wave rollout.Wave) (string, error) {
	var names, addresses []string
	for _, n := range wave.Nodes {
		// Doubly, for the string of PromQL and for its regular expression.
		names = append(names, strings.ReplaceAll(regexp.QuoteMeta(n.Name), `\`, `\\`))
		addresses = append(addresses, strings.ReplaceAll(regexp.QuoteMeta(n.Address), `\`, `\\`))
	}
	meant := []string{
		"$(NODES)", strings.Join(names, "|"), "$(ADDRESSES)", strings.Join(addresses, "|"),
		"$(REVISION)", wave.Revision, "$(NAMESPACE)", wave.Namespace, "$(NAME)", wave.Name,
	}
	length := len(text)
	for i := 0; i < len(meant); i += 2 {
		length += strings.Count(text, meant[i]) * (len(meant[i+1]) - len(meant[i]))
	}
	if length > longestQuery {
		return "", fmt.Errorf("query: for the %d nodes of the wave it is %d bytes long, and at most %d are asked: name $(NODES) and $(ADDRESSES) less often, or update fewer nodes at a time", len(wave.Nodes), length, longestQuery)
	}
	return strings.NewReplacer(meant...).Replace(text), nil
}

// valuesOf are the values of a scalar or a vector. The client reads fields that are
// missing or null as nothing: a result as nil, a sample as nil or as 0 at time 0.
func valuesOf(result model.Value) ([]float64, error) {
	switch r := result.(type) {
	case nil:
		return nil, errors.New("the query gives nothing, as if its address were not that of a Prometheus")
	case *model.Scalar:
		return valuesOfSamples(&model.Sample{Value: r.Value, Timestamp: r.Timestamp})
	case model.Vector:
		return valuesOfSamples(r...)
	}
	return nil, fmt.Errorf("the query gives a %s instead of a vector or a scalar", result.Type())
}

// mostValues is how many values a query may give: each costs the evaluation of its condition.
const mostValues = 1000

func valuesOfSamples(samples ...*model.Sample) ([]float64, error) {
	if len(samples) > mostValues {
		return nil, fmt.Errorf("the query gives %d values, and at most %d are looked at: aggregate them", len(samples), mostValues)
	}
	var out []float64
	for _, sample := range samples {
		switch {
		case sample == nil || sample.Timestamp == 0:
			return nil, errors.New("the query gives a sample without a value")
		case sample.Histogram != nil:
			return nil, errors.New("the query gives a histogram instead of a value")
		}
		out = append(out, float64(sample.Value))
	}
	return out, nil
}
