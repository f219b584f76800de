// Package analysis makes the measurements of rollingUpdate.analysis: HTTP requests
// to the nodes of a wave, Prometheus queries and webhooks. Whether a wave passes is
// decided in package rollout.
//
// What is measured is chosen by whoever may write IngressDaemonSets, so nothing
// that a server answers gets into an error but statuses, values, and what
// Prometheus says of the query; and reach.go says what may be asked.
package analysis

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mumoshu/ingress-daemonset-controller/api/v1alpha1"
	"github.com/mumoshu/ingress-daemonset-controller/internal/rollout"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say what checks may reach beside the Services of their namespace and the ports of
// their own pods, and where those are read.
type Options struct {
	// Services reads Services; from a cache, since it is read for each measurement.
	Services client.Reader
	// Live lists pods and EndpointSlices of any namespace as they are now.
	Live client.Reader
	// APIServer is the URL at which the controller reaches the API server, which no check
	// may ask there or elsewhere.
	APIServer string
	// Hosts are what the operator permits to each check.
	Hosts Hosts
	// ProvidersFile names the Prometheus servers that checks may name; empty for none. It
	// is read for each measurement, and so are the files that it names.
	ProvidersFile string
}

// Measurer makes measurements. It may be used by several goroutines.
type Measurer struct {
	Options
	apiServers apiServers
}

// New makes a Measurer.
func New(o Options) *Measurer {
	return &Measurer{Options: o, apiServers: apiServers{reading: make(chan struct{}, 1)}}
}

// Check says what of a check no measurement of a wave could mend: a condition that cannot be
// read, or a query that is too long with the names of the wave's nodes. Before there is a wave
// it is one without nodes.
func Check(check v1alpha1.AnalysisCheck, wave rollout.Wave) error {
	if check.Prometheus == nil {
		return nil
	}
	if _, err := condition(check.Prometheus.Success); err != nil {
		return err
	}
	_, err := query(check.Prometheus.Query, wave)
	return err
}

// Measure makes one measurement of a check; nil is a pass. It takes at most the
// check's timeout.
func (m *Measurer) Measure(ctx context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout())
	defer cancel()
	err := m.measure(ctx, check, wave)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it took longer than %s", check.Timeout())
	}
	return err
}

func (m *Measurer) measure(ctx context.Context, check v1alpha1.AnalysisCheck, wave rollout.Wave) error {
	switch {
	case check.HTTP != nil:
		return m.askNodes(ctx, check.HTTP, wave)
	case check.Prometheus != nil:
		return m.askPrometheus(ctx, check.Prometheus, wave)
	case check.Webhook != nil:
		return m.askWebhook(ctx, check.Webhook, wave)
	}
	return errors.New("it has none of http, prometheus and webhook")
}

// mostNodes of a wave are asked at a time by one measurement.
const mostNodes = 32

// askNodes asks the nodes side by side and gives the first failure by name.
func (m *Measurer) askNodes(ctx context.Context, check *v1alpha1.HTTPCheck, wave rollout.Wave) error {
	way, closed, err := m.nodeRoute(ctx, check.Port, wave)
	if err != nil {
		return err
	}
	c := bounded(&http.Transport{DialContext: way, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: check.Host}})
	errs := make([]error, len(wave.Nodes))
	var asking errgroup.Group
	asking.SetLimit(mostNodes)
	for i, node := range wave.Nodes {
		asking.Go(func() error {
			if closed(node) {
				errs[i] = fmt.Errorf("node %s runs no pod of the template or health checker that may listen on port %d, so it is not asked", node.Name, check.Port)
			} else {
				errs[i] = askNode(ctx, c, check, node)
			}
			return nil
		})
	}
	_ = asking.Wait()
	out := &rollout.NodesFailed{}
	var whys []string
	for i, err := range errs {
		if err != nil {
			out.Nodes, whys = append(out.Nodes, wave.Nodes[i].Name), append(whys, err.Error())
		}
	}
	if len(whys) == 0 {
		return nil
	}
	slices.Sort(out.Nodes)
	slices.Sort(whys)
	if out.Why = whys[0]; len(whys) > 1 {
		out.Why = fmt.Sprintf("%s, and %d more", whys[0], len(whys)-1)
	}
	return out
}

func askNode(ctx context.Context, c *http.Client, check *v1alpha1.HTTPCheck, node rollout.WaveNode) error {
	target := url.URL{Scheme: strings.ToLower(check.Scheme), Host: net.JoinHostPort(node.Address, strconv.Itoa(int(check.Port)))}
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	path, query, _ := strings.Cut(check.Path, "?")
	target.Path, target.RawQuery = path, query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	request.Host = check.Host
	response, err := c.Do(request)
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, withoutURL(err))
	}
	defer response.Body.Close()
	status := int32(response.StatusCode)
	if expected := check.Statuses; slices.Contains(expected, status) || len(expected) == 0 && status >= 200 && status < 400 {
		return nil
	}
	return fmt.Errorf("node %s answered %s with status %d", node.Name, target.RequestURI(), status)
}

// withoutURL is an error of an http.Client in short.
func withoutURL(err error) error {
	if wrapped := (&url.Error{}); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func (m *Measurer) askWebhook(ctx context.Context, check *v1alpha1.WebhookCheck, wave rollout.Wave) error {
	way, err := m.route(ctx, check.URL, wave)
	if err != nil {
		return err
	}
	names := []string{}
	for _, n := range wave.Nodes {
		names = append(names, n.Name)
	}
	body, err := json.Marshal(map[string]any{
		"namespace": wave.Namespace, "name": wave.Name, "revision": wave.Revision, "nodes": names,
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, check.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := bounded(&http.Transport{DialContext: way}).Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the webhook answered with status %d", response.StatusCode)
	}
	return nil
}
